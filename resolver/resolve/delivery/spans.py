"""A span for each commit whose message is part of a trace: from the stored op to visibility.

OpenTelemetry's own variables say where spans go (docs/monitoring.md). Without them nothing is done
here, and the library is not imported.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...errors import how_to_install
from ...protocol import Resolution, decode_resolution
from .packed import DecisionRecords, Output

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

logger = logging.getLogger(__name__)

#: Any of them switches spans on.
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
#: The header of W3C's trace context.
_TRACEPARENT = "traceparent"
#: Seconds for the last spans. A collector that is away would hold up the end for 10 s.
_LAST_SECONDS = 3.0
_NS_OF_MS = 1_000_000


class Spans:
    """Tells of commits to an OTLP endpoint; a thread of the library sends the spans.

    A span that can't be sent is dropped: it holds up no message.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._tracer: Tracer | None = None
        self._close: Callable[[], None] | None = None
        if any(os.environ.get(name) for name in _ENDPOINTS):
            try:
                self._open()
            except Exception as error:  # OpenTelemetry's variables may hold anything
                logger.warning("no spans are sent: %s", error)

    def tell(self, written: Iterable[DecisionRecords]) -> None:
        """Tell of decisions whose Kafka transaction is committed."""
        if self._tracer is None:
            return
        now_ns = self._clock_ns()
        try:
            for message, record, half_headers in written:
                if message and record and half_headers and (sender := _sampled(message)):
                    resolution = decode_resolution(record.value)
                    self._tell(self._tracer, message, resolution, sender, now_ns)
        except Exception as error:  # the batch is delivered, whatever becomes of its spans
            logger.warning("spans of a batch are left out: %s", error)

    def close(self) -> None:
        """Send what is left, as far as the collector takes it soon."""
        if self._close is not None:
            last = threading.Thread(target=self._close, name="last spans", daemon=True)
            last.start()
            last.join(_LAST_SECONDS)

    def _open(self) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError as missing:
            logger.warning(
                "no spans are sent: they need %s: %s", missing.name, how_to_install("traces")
            )
            return
        ours = Resource.create({"service.name": "txresolver"})
        provider = TracerProvider(
            resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer, self._close = provider.get_tracer("txresolver"), provider.shutdown

    @staticmethod
    def _tell(
        tracer: Tracer,
        message: Output,
        resolution: Resolution,
        sender: SpanContext,
        now_ns: int,
    ) -> None:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind

        ended_ns = min(now_ns, (resolution.ended_at or resolution.decided_at) * _NS_OF_MS)
        span = tracer.start_span(
            f"deliver {message.topic}",
            context=Context(),  # a trace of its own, whatever this thread is doing
            kind=SpanKind.PRODUCER,
            links=[Link(sender)],
            start_time=ended_ns,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.name": "deliver",
                "messaging.operation.type": "send",
                "messaging.destination.name": message.topic,
                "messaging.message.id": resolution.transaction_id,
                "txresolver.group": resolution.group,
                "txresolver.half": f"{resolution.queue}:{resolution.offset}",
                "txresolver.source": resolution.source.value,
            },
        )
        span.end(now_ns)


def _sampled(message: Output) -> SpanContext | None:
    """Return the span that sent a message, if its trace is sampled."""
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    for name, value in message.headers:
        if name == _TRACEPARENT and value is not None:
            named = {name: value.decode("latin-1")}
            context = TraceContextTextMapPropagator().extract(named, Context())
            sender = get_current_span(context).get_span_context()
            return sender if sender.is_valid and sender.trace_flags.sampled else None
    return None
