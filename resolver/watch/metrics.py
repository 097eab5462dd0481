"""Every metric: its name, type, labels and meaning, in one place; and one value of a metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


@dataclass(frozen=True)
class Definition:
    """A metric; the name of a counter ends in `_total`, a duration's in `_seconds`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    about: str


class Buckets(NamedTuple):
    """A histogram: how many values are at most each bound, by bound in seconds; and their sum."""

    counts: Mapping[float, int]
    total: int
    sum: float


class Value(NamedTuple):
    """One value of a metric; `labels` stand in the order of its definition."""

    name: str
    labels: tuple[str, ...]
    value: float | Buckets


_QUEUE, _GROUP = ("queue",), ("group",)
_PLACE, _OF_GROUP = ("query", "topic", "partition"), ("group", "topic")

#: What the process of resolve or land knows of its own queries.
_LIVE = (
    Definition("txresolver_half_messages", GAUGE, _QUEUE,
        "Pending halves of a queue, after its last batch."),
    Definition("txresolver_watermark_timestamp_seconds", GAUGE, _QUEUE,
        "Time up to which a queue's ops have been read, by Kafka's clock."),
    Definition("txresolver_next_due_timestamp_seconds", GAUGE, _QUEUE,
        "When the next check or discard of a queue is due; none while nothing waits for a time."),
    Definition("txresolver_batch_repeated_ends", GAUGE, _QUEUE,
        "Ends in the queue's last batch that repeated an outcome."),
    Definition("txresolver_records_read_total", COUNTER, _PLACE,
        "Offset up to which a query has read a partition."),
    Definition("txresolver_lag_records", GAUGE, _PLACE,
        "Offsets from there to the partition's end."),
    Definition("txresolver_batches_total", COUNTER, ("query",),
        "Batches that a query has finished since its checkpoint was made."),
    Definition("txresolver_batch_seconds", GAUGE, ("query", "part"),
        "Time of the last batch; the part `triggerExecution` is all of it, `addBatch` decides and "
        "writes."),
    Definition("txresolver_batch_timestamp_seconds", GAUGE, ("query",),
        "When the last batch began."),
    Definition("txresolver_state_bytes", GAUGE, ("kind",),
        "Size of resolve's state: in `memory`, and in `files` of RocksDB."),
    Definition("txresolver_marker_timestamp_seconds", GAUGE, (),
        "When the marker was last written; an idle resolver writes it again after an hour."),
    Definition("txresolver_marker_batch", GAUGE, (), "Last batch that the marker names."),
    Definition("txresolver_revocation_seconds", HISTOGRAM, (),
        "Time from a queue's wish to have a fast id revoked to Kafka's answer, since the start."),
    Definition("txresolver_revocations_waiting", GAUGE, (),
        "Fast ids that are to be revoked; halves that name them wait for it."),
    Definition("txresolver_revocations_forbidden", GAUGE, (),
        "Those of them that the resolver has no permission to revoke."),
)  # fmt: skip

#: What the tables say: the same for any process that reads them.
_LEDGER = (
    Definition("txresolver_pending_messages", GAUGE, ("group", "status"),
        "Transactions without an outcome; PARKED: committed, and waiting for their topic."),
    Definition("txresolver_oldest_pending_timestamp_seconds", GAUGE, _GROUP,
        "When the half of the oldest pending transaction was stored."),
    Definition("txresolver_unanswered_messages", GAUGE, _GROUP,
        "Pending transactions whose last check nobody has answered."),
    Definition("txresolver_commit_messages_total", COUNTER, _OF_GROUP,
        "Transactions that ended as COMMIT."),
    Definition("txresolver_rollback_messages_total", COUNTER, _OF_GROUP,
        "Transactions that ended as ROLLBACK."),
    Definition("txresolver_discard_messages_total", COUNTER, _OF_GROUP,
        "Transactions that ended as DISCARD: given up."),
    Definition("txresolver_undeliverable_messages_total", COUNTER, _OF_GROUP,
        "Transactions that ended as UNDELIVERABLE: committed, and refused by the topic or policy."),
    Definition("txresolver_finish_message_latency_seconds", HISTOGRAM, ("outcome",),
        "Time from the half that Kafka stored to the outcome that Kafka stored."),
    Definition("txresolver_commit_latency_seconds", HISTOGRAM, (),
        "Time from the op that Kafka stored to the visible message that the resolver delivers."),
    Definition("txresolver_checks_sent_total", COUNTER, _GROUP, "Checks that were sent."),
    Definition("txresolver_checks_answered_total", COUNTER, ("group", "state"),
        "Ops that answer a check."),
    Definition("txresolver_quarantined_total", COUNTER, ("reason",),
        "Refused records and elements; CONFLICTING_END: an end after another one."),
    Definition("txresolver_operator_acts_total", COUNTER, ("state",),
        "Ops by which an operator ended transactions by hand."),
    Definition("txresolver_audit_timestamp_seconds", GAUGE, (), "When the last audit ended."),
    Definition("txresolver_audit_violations", GAUGE, ("invariant",),
        "Violations that the last audit found."),
)  # fmt: skip

_PROCESS = (
    Definition("txresolver_figures_timestamp_seconds", GAUGE, ("source",),
        "When the figures of a source were last read: `resolve`, `land`, `kafka`, `ledger`."),
    Definition("txresolver_build_info", GAUGE, ("version",), "1; the version is in the label."),
)  # fmt: skip

#: What an agent or a producer knows. Neither has state, so its counters begin with the process.
_AGENT = (
    Definition("txresolver_agent_up", GAUGE, _GROUP, "1 while the agent answers checks, else 0."),
    Definition("txresolver_agent_checks_held", GAUGE, _GROUP,
        "Checks that wait, are being asked, or whose answer is under way."),
    Definition("txresolver_agent_checks_held_max", GAUGE, _GROUP,
        "Number of held checks at which the agent fetches no more."),
    Definition("txresolver_producer_ends_total", COUNTER, ("group", "state", "source"),
        "Ends that this process sent; the source is `application` or `check`."),
)  # fmt: skip

RESOLVER_METRICS = (*_LIVE, *_LEDGER, *_PROCESS)
METRICS = {definition.name: definition for definition in (*RESOLVER_METRICS, *_AGENT)}


def families(values: Iterable[Value]) -> Iterable[Metric]:
    """Return values as Prometheus has them, one family a metric."""
    made: dict[str, Metric] = {}
    for name, labels, value in values:
        if name not in made:
            made[name] = _family(METRICS[name])
        family = made[name]
        if isinstance(value, Buckets):
            counts = [(str(bound), count) for bound, count in value.counts.items()]
            assert isinstance(family, HistogramMetricFamily)  # noqa: S101 - by its definition
            family.add_metric(labels, [*counts, ("+Inf", value.total)], value.sum)
        else:
            assert isinstance(family, (GaugeMetricFamily, CounterMetricFamily))  # noqa: S101
            family.add_metric(labels, value)
    return made.values()


def _family(definition: Definition) -> Metric:
    kinds: dict[str, type[Metric]] = {
        COUNTER: CounterMetricFamily,
        GAUGE: GaugeMetricFamily,
        HISTOGRAM: HistogramMetricFamily,
    }
    family = kinds[definition.kind]
    return family(definition.name, definition.about, labels=definition.labels)  # type: ignore[call-arg]
