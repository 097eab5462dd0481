"""Renders docs/api.md from the docstrings of the public names; run by scripts/api."""
