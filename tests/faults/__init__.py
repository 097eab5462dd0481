"""The fault campaign, `scripts/faults`: a running system is hit, and all its messages are told."""
