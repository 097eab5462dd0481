"""The fault campaign: a running system is hit, round after round, and every message accounted for."""
