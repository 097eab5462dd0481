"""Tables of results, in Markdown: medians over the rounds, with the least and the most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .results import Results, Spread


class Column(NamedTuple):
    """A figure and how it is shown."""

    heading: str
    figure: str
    shown: str = ",.0f"


class Table(NamedTuple):
    """A heading, a sentence, and the figures of all cases of some measurements."""

    heading: str
    about: str
    measurements: tuple[str, ...]
    columns: tuple[Column, ...]


_RATE = Column("transactions/s", "per_second")
_ASKED = Column("asked for", "rate")
_SENT = Column("sent/s", "sent_per_second")
_VISIBLE = Column("visible/s", "visible_per_second")
_LATENCY = (
    Column("p50 ms", "p50_ms"),
    Column("p90 ms", "p90_ms"),
    Column("p99 ms", "p99_ms"),
    Column("max ms", "max_ms"),
)
_ONCE = (Column("lost", "lost"), Column("doubled", "doubled"))
_STATE_MEMORY = Column("state MB in memory", "state_memory_mb")
_BATCH = (Column("batch p50 ms", "batch_p50_ms"), Column("batch max ms", "batch_max_ms"))

TABLES = (
    Table(
        "RocketMQ",
        "Its own benchmark programs, 32 threads, every transaction committed, its consumer beside "
        "it, on a topic that its broker makes by itself. What counts is the lesser of sent and "
        "consumed. `before` is what was sent in the last 10 s of the warm-up: as much as after it, "
        "or it was too short.",
        ("rocketmq",),
        (
            _RATE,
            _SENT,
            Column("before", "before_per_second"),
            Column("consumed/s", "consumed_per_second"),
            Column("round trip ms", "round_trip_ms", ",.1f"),
            Column("sent to consumed, mean ms", "born_to_consumed_ms", ",.0f"),
            Column("failed", "failed"),
        ),
    ),
    Table(
        "End to end, as many as go through",
        "`TransactionProducer` → half → local transaction → op → resolver → `read_committed` "
        "consumer, all on the same cores: a closed loop with at most 50,000 transactions between "
        "the producer and the consumer. `threads`: 32 of them, each with "
        "`send_message_in_transaction`; `lingering`: the same with librdkafka's `linger.ms=1`; "
        "`bulk`: two, with 100 messages for a local transaction. "
        "What counts is the lesser of sent and visible. Then at 80 % of the best of them, in an "
        "open loop and in bulk. Latency is from the end of the local transaction to the consumer's "
        "having the message, of all that ended in the window.",
        ("sustained",),
        (_ASKED, _RATE, _SENT, _VISIBLE, *_LATENCY, *_BATCH[:1], *_ONCE),
    ),
    Table(
        "End to end, at a rate",
        "The same in an open loop: sent whether or not earlier ones are visible; up to 2,000/s one "
        "by one, above in bulk.",
        ("latency",),
        (_RATE, *_LATENCY, *_BATCH[:1], *_ONCE),
    ),
    Table(
        "Fast commits",
        "The same two with `TransactionProducer(fast=True)`: the producer writes message and op "
        "in one Kafka transaction, and the resolver records the outcome afterwards.",
        ("fast",),
        (_ASKED, _RATE, *_LATENCY, *_BATCH[:1], *_ONCE),
    ),
    Table(
        "Producers alone",
        "Halves and their ops with nothing behind them: one thread, 32 threads, asyncio with "
        "256 tasks, bulk with 100 messages for a local transaction; and RocketMQ's benchmark "
        "without its consumer. Closed loops; a round trip is a call's.",
        ("client",),
        (
            _RATE,
            Column("round trip mean ms", "round_trip_mean_ms", ",.1f"),
            Column("p50 ms", "round_trip_p50_ms", ",.1f"),
            Column("p99 ms", "round_trip_p99_ms", ",.1f"),
            Column("CPU µs of the process", "cpu_us", ",.0f"),
        ),
    ),
    Table(
        "Backlog",
        "All stored before the resolver starts, by a bare librdkafka producer, ops packed 32 to a "
        "record: from the start until the last batch is committed.",
        ("backlog",),
        (_RATE, *_BATCH, _STATE_MEMORY, *_ONCE),
    ),
    Table(
        "The plain Spark way",
        "A stream-stream left outer join with watermarks and Spark's Kafka sink (at least once), "
        "on the same backlog and at 200/s by `TransactionProducer`; the seconds are how far an "
        "end may be from its half, and the delay of both watermarks. Whole-stage code "
        "generation is on, as Spark has it.",
        ("plain",),
        (
            _RATE,
            *_LATENCY,
            *_BATCH[:1],
            Column("state rows", "state_rows"),
            _STATE_MEMORY,
            *_ONCE,
        ),
    ),
    Table(
        "Late, repeated and conflicting ends",
        "At 200/s, of eight transactions: one committed twice, one committed and then rolled back, "
        "one rolled back and then committed, one committed and one rolled back after 10 s, the "
        "others once, at once. The first end decides.",
        ("ends",),
        (
            Column("transactions", "transactions"),
            Column("committed", "committed"),
            *_ONCE,
            Column("wrongly delivered", "wrongly_delivered"),
        ),
    ),
    Table(
        "The limits",
        "Spark's own copy of the same halves from Kafka to Kafka; a bare idempotent producer and a "
        "consumer of librdkafka, from Python.",
        ("limit",),
        (
            Column("copied/s", "per_second"),
            Column("produced/s", "produced_per_second"),
            Column("consumed/s", "consumed_per_second"),
        ),
    ),
    Table(
        "Checks",
        "How long after it is due a check is visible; one that is missing is late without end. "
        "With a million pending, 1,000 are due each second, in the order of their halves; batches "
        "under 2,000 other transactions/s before that. On time is within 3 s: as long as a batch "
        "may take then, since what falls due in one leaves with the next.",
        ("checks", "held"),
        (
            Column("checks", "checks"),
            Column("missing", "missing"),
            *_LATENCY,
            Column("batch p50 ms while held", "held_batch_p50_ms"),
            Column("and max", "held_batch_max_ms"),
            Column("batch p50 ms while checked", "batch_p50_ms"),
            _STATE_MEMORY,
        ),
    ),
    Table(
        "A real topic without a leader",
        "All others at 200/s, while 20/s to this topic are parked for 90 s.",
        ("leaderless",),
        (
            *_LATENCY,
            *_ONCE,
            Column("parked", "parked"),
            Column("lost of them", "parked_lost"),
            Column("doubled of them", "parked_doubled"),
        ),
    ),
    Table(
        "Growth",
        "Batches under a steady 2,000/s, on topics where `settled` and `pending` are the counts at "
        "first. Then the state: its keys and values, as the checkpoint has them. Then a backlog, "
        "for the rate, when `settled then` is the count.",
        ("settled", "pending", "queues", "bodies"),
        (
            Column("settled", "settled"),
            Column("pending", "pending"),
            *_BATCH,
            Column("state MB", "state_mb", ",.1f"),
            _STATE_MEMORY,
            Column("settled then", "settled_then"),
            _RATE,
        ),
    ),
    Table(
        "Settled, in turn",
        "Batches under a steady 2,000/s with many settled, each time between two measurements "
        "on new topics with few; a ratio is that of two measured one directly after the other.",
        ("settled",),
        (
            Column("batch p50 ms with many", "many_batch_p50_ms"),
            Column("with few", "few_batch_p50_ms"),
            Column("times", "times", ".2f"),
            Column("least", "least_times", ".2f"),
            Column("most", "most_times", ".2f"),
        ),
    ),
    Table(
        "Idle",
        "`txresolver up` with its broker while nothing happens, without and with pending.",
        ("idle", "asleep"),
        (Column("cores", "cores", ",.3f"),),
    ),
    Table(
        "Start",
        "`txresolver up` with its own broker: from the start of the process to its lines, and to "
        "the first message, which was committed before the kill -9. Medians of the starts, and "
        "the worst.",
        ("start",),
        (
            Column("starts", "starts"),
            Column("delivering s", "delivering_s", ",.1f"),
            Column("worst", "worst_delivering_s", ",.1f"),
            Column("ready s", "ready_s", ",.1f"),
            Column("worst ready", "worst_ready_s", ",.1f"),
            Column("first message s", "first_message_s", ",.1f"),
            Column("worst first message", "worst_first_message_s", ",.1f"),
        ),
    ),
    Table(
        "Audit",
        "`txresolver audit` of landed tables, without `--topics`.",
        ("audit",),
        (_RATE, Column("seconds", "seconds")),
    ),
    Table(
        "Questions to the ledger",
        "Commands of a process each on a ledger without Kafka, 1 % of each anomaly, each end an op "
        "of its own. Cold: no file of the tables in the kernel's cache.",
        ("ledger",),
        (
            Column("seconds", "seconds", ",.2f"),
            Column("CPU seconds", "cpu_seconds", ",.2f"),
            Column("MB", "megabytes"),
        ),
    ),
)


class ByPart(NamedTuple):
    """A figure that is given for each process, or for each part of a batch."""

    heading: str
    about: str
    figure: str
    shown: str = ",.0f"


#: Each of every measurement that has the figure.
BY_PART = (
    ByPart(
        "RocketMQ's warm-up",
        "Sent/s in the ten seconds until then; what counts comes last.",
        "sent_by_time",
    ),
    ByPart(
        "CPU",
        "Seconds of a million transactions. `stands by`: Kafka and Spark while RocketMQ is "
        "measured. `elsewhere`: what the machine did besides; `steal`: what it was denied by "
        "those that share it.",
        "cpu_per_million",
    ),
    ByPart(
        "A batch's time",
        "Median ms of its parts, by Spark's account; `addBatch` reads, decides and delivers.",
        "batch_parts_ms",
    ),
    ByPart("Idle, by process", "Cores that are used.", "cores_by_process", ".3f"),
    ByPart(
        "Memory",
        "MB (RSS), the most. Spark's JVM has run what was measured before.",
        "memory_mb",
    ),
)


def markdown(results: Results) -> Iterator[str]:
    """Yield the lines of all tables that there is anything for."""
    for table in TABLES:
        yield from _table(results, table)
    for by_part in BY_PART:
        yield from _by_part(results, by_part)


def _table(results: Results, table: Table) -> Iterator[str]:
    cases = [
        case
        for case in _cases(results, table.measurements)
        if any(results.spread(*case, column.figure) for column in table.columns)
    ]
    columns = [
        column
        for column in table.columns
        if any(results.spread(*case, column.figure) for case in cases)
    ]
    if columns:
        rows = (
            [
                case[1],
                *(_cell(results.spread(*case, column.figure), column.shown) for column in columns),
            ]
            for case in cases
        )
        yield from _section(
            table.heading, table.about, [column.heading for column in columns], rows
        )


def _by_part(results: Results, by_part: ByPart) -> Iterator[str]:
    cases = {
        case: parts
        for case in _cases(results, results.measurements())
        if (parts := results.parts(*case, by_part.figure))
    }
    all_parts = sorted(set().union(*cases.values()))
    if cases:
        rows = (
            [
                _label(*case),
                *(
                    _cell(results.spread(*case, by_part.figure, part), by_part.shown)
                    for part in all_parts
                ),
            ]
            for case in cases
        )
        yield from _section(by_part.heading, by_part.about, all_parts, rows)


def _section(
    heading: str, about: str, columns: Sequence[str], rows: Iterator[list[str]]
) -> Iterator[str]:
    yield from (f"### {heading}", "", about, "")
    yield f"| | {' | '.join(columns)} |"
    yield f"| --- |{' ---: |' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _cases(results: Results, measurements: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, case) for name in measurements for case in results.cases(name)]


def _label(measurement: str, case: str) -> str:
    return f"{measurement}: {case}"


def _cell(spread: Spread | None, shown: str) -> str:
    if spread is None:
        return ""
    median, least, most = (format(figure, shown) for figure in spread[:3])
    return median if spread.rounds == 1 else f"{median} ({least} to {most})"
