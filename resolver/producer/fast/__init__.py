"""The fast lane: the producer makes its messages visible itself, in Kafka transactions of its own.

`lane.py` decides which commits it takes, `client.py` writes them, `group.py` says what is written.
"""

from .half import FastHalf
from .lane import FastLane, FastLimits

__all__ = ["FastHalf", "FastLane", "FastLimits"]
