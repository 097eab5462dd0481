"""Exactly-once delivery of a batch's decisions to Kafka, from the driver."""

from .decision_writer import Marked
from .delivery import Delivery

__all__ = ["Delivery", "Marked"]
