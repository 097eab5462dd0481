"""The job `resolve`: reads halves and ops, decides, delivers exactly once."""
