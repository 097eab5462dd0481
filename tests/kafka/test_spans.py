"""Spans of commits, at a receiver that speaks OTLP over HTTP."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgpack
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from resolver.broker import Broker
from resolver.kafka.clients import admin_client
from resolver.kafka.topics import ensure_topics
from resolver.protocol import Names
from resolver.resolve.delivery import Delivery
from resolver.resolve.delivery.packed import DecisionRecords
from resolver.settings import Settings
from tests.support.patience import PATIENCE_SECONDS

from .real_topic import commit, make_real, values

SENT = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
SAMPLED = ("traceparent", f"00-{SENT[0]}-{SENT[1]}-01".encode())
NOT_SAMPLED = ("traceparent", f"00-{SENT[0]}-{SENT[1]}-00".encode())
#: When Kafka stored the half, in ms since 1970.
STORED_MS = 1_767_225_600_000


class Receiver(ThreadingHTTPServer):
    """Takes spans as a collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = ""
        self.spans: list[Any] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        for of_resource in request.resource_spans:
            named = {one.key: one.value.string_value for one in of_resource.resource.attributes}
            self.server.service = named["service.name"]
            for of_scope in of_resource.scope_spans:
                self.server.spans.extend(of_scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def settings(kafka: Broker, prefix: str) -> Settings:
    settings = Settings(bootstrap_servers=kafka.bootstrap, topic_prefix=prefix, queues=1)
    ensure_topics(admin_client(settings), settings)
    return settings


@contextmanager
def delivering(settings: Settings, decisions: list[DecisionRecords]) -> Iterator[None]:
    """Deliver a batch, and close; all spans are sent then."""
    delivery = Delivery(settings, "checkpoint")
    try:
        delivery.start(is_new=True)
        delivery.deliver(0, [msgpack.packb(decisions)])
        yield
    finally:
        delivery.close()


@pytest.mark.gate
def test_a_sampled_commit_has_a_span_that_links_to_its_sender(
    settings: Settings, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
    monkeypatch.setattr("resolver.resolve.delivery.spans._LAST_SECONDS", PATIENCE_SECONDS)
    real = make_real(settings, f"real-{uuid.uuid4().hex[:8]}")
    names = Names(settings.topic_prefix)
    decisions = [
        commit(real, 0, STORED_MS, names, headers=[SAMPLED]),
        commit(real, 1, STORED_MS, names, headers=[NOT_SAMPLED]),
        commit(real, 2, STORED_MS, names, headers=[("traceparent", b"\xff-malformed")]),
        commit(real, 3, STORED_MS, names),
    ]
    began_ns = time.time_ns()
    with delivering(settings, decisions):
        assert len(values(settings, real)) == 4
    [span] = receiver.spans
    assert receiver.service == "txresolver"
    assert span.name == f"deliver {real}"
    [link] = span.links
    assert (link.trace_id.hex(), link.span_id.hex()) == SENT
    assert span.trace_id.hex() != SENT[0] and not span.parent_span_id
    assert span.start_time_unix_nano == 0  # `commit` says that its op was stored then
    assert began_ns < span.end_time_unix_nano < time.time_ns()
    told = {one.key: one.value.string_value for one in span.attributes}
    assert told["messaging.message.id"] == "0"
    assert told["txresolver.half"] == "0:0"
    assert told["txresolver.group"] == "orders"


def test_a_receiver_that_is_away_holds_up_no_message(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    real = make_real(settings, f"real-{uuid.uuid4().hex[:8]}")
    sampled = commit(real, 0, STORED_MS, Names(settings.topic_prefix), headers=[SAMPLED])
    with delivering(settings, [sampled]):
        assert len(values(settings, real)) == 1


def test_without_an_address_nothing_is_sent(
    settings: Settings, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    real = make_real(settings, f"real-{uuid.uuid4().hex[:8]}")
    sampled = commit(real, 0, STORED_MS, Names(settings.topic_prefix), headers=[SAMPLED])
    with delivering(settings, [sampled]):
        pass
    assert receiver.spans == []


def test_without_the_library_it_says_once_how_to_install_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    real = make_real(settings, f"real-{uuid.uuid4().hex[:8]}")
    sampled = commit(real, 0, STORED_MS, Names(settings.topic_prefix), headers=[SAMPLED])
    with delivering(settings, [sampled]):
        assert len(values(settings, real)) == 1
    [warning] = [record.getMessage() for record in caplog.records if "spans" in record.message]
    assert "opentelemetry" in warning and "[traces]" in warning
