"""The embedded Kafka: a real broker from Maven's jars, for one machine."""

from __future__ import annotations

from .jars import kafka_classpath, spark_jars
from .properties import Security
from .server import Broker

__all__ = ["Broker", "Security", "kafka_classpath", "spark_jars"]
