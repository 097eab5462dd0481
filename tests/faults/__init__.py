"""The fault campaign, `scripts/faults`: a running system is hit, and no message may be missing."""
