"""Exactly-once delivery of a batch's decisions to Kafka, from the driver."""

from .delivery import Delivery

__all__ = ["Delivery"]
