"""A record with a header name that is no text: confluent_kafka refuses it, other clients do not."""

from __future__ import annotations

import ctypes

from confluent_kafka import cimpl

_END, _TOPIC, _PARTITION, _HEADER = 0, 1, 3, 9  # rd_kafka_vtype_t
_PRODUCER = 0


def write_with_header(bootstrap: str, topic: str, name: bytes) -> None:
    """Write a record to partition 0, by librdkafka's own functions."""
    kafka = ctypes.CDLL(cimpl.__file__)
    kafka.rd_kafka_conf_new.restype = kafka.rd_kafka_new.restype = ctypes.c_void_p
    why = ctypes.create_string_buffer(512)
    conf = ctypes.c_void_p(kafka.rd_kafka_conf_new())
    kafka.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), why, 512)
    producer = ctypes.c_void_p(kafka.rd_kafka_new(_PRODUCER, conf, why, 512))
    assert producer.value, why.value
    header = (_HEADER, ctypes.c_char_p(name), ctypes.c_char_p(b"v"), ctypes.c_ssize_t(1))
    place = (_TOPIC, ctypes.c_char_p(topic.encode()), _PARTITION, ctypes.c_int32(0))
    assert kafka.rd_kafka_producev(producer, *place, *header, _END) == 0
    assert kafka.rd_kafka_flush(producer, 30_000) == 0
    kafka.rd_kafka_destroy(producer)
