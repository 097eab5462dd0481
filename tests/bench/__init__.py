"""Measurements: `scripts/bench`. What they found is in docs/performance.md."""
