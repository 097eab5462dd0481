"""Records that nobody should send, among some that are right: `scripts/fuzz`.

A seeded generator makes them: Hypothesis would take an hour for a million. Hypothesis has its part
in tests/unit, where a history that fails is to be made small.
"""
