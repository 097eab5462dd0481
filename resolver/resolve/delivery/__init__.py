"""Exactly-once delivery of a batch's decisions to Kafka, from the driver."""

from .delivery import Delivery, Marked

__all__ = ["Delivery", "Marked"]
