"""The error of a fault campaign."""

from __future__ import annotations


class FaultError(Exception):
    """A fault campaign could not go on."""
