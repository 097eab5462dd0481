"""One genuine ledger with everything in it that can become of a transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Message
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from resolver.ledger.landing import land_query
from resolver.protocol import Element, Op, Record, StoredHalf, TransactionStatus, commit_record
from resolver.protocol.names import RESUMES
from resolver.resolve.job import Resolve
from resolver.settings import Settings
from resolver.spark.running import finish_batch
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.world import COMMIT, ROLLBACK, UNKNOWN, Sent, World

QUEUES = 2
SHORT: dict[str, Any] = {
    "transaction_timeout_ms": 1_000,
    "transaction_check_interval_ms": 1_500,
    "check_backoff_max_ms": 3_000,
    "transaction_check_max": 2,
    "broker_clock_skew_ms": 2_000,
    "land_trigger_interval_ms": 3_000,
}


@dataclass
class Story:
    """What was sent, by what becomes of it."""

    world: World
    settings: Settings
    tables: Path
    committed: list[Sent] = field(default_factory=list)
    rolled_back: list[Sent] = field(default_factory=list)
    undeliverable: list[Sent] = field(default_factory=list)
    by_name: dict[str, Sent] = field(default_factory=dict)

    @property
    def lifted(self) -> Sent:
        """One that was committed, of which only that is to have landed that it was refused."""
        return self.committed[50]

    def send(self, name: str, **changes: Any) -> Sent:
        self.by_name[name] = self.world.send_half(**changes)
        return self.by_name[name]

    def op(self, sent: Sent, state: TransactionStatus = COMMIT, **changes: Any) -> Message:
        """Send an op of one element, with another group, id or actor than it should have."""
        fields = {"group": sent.half.group, "transaction_id": sent.half.transaction_id} | changes
        element = Element(0, sent.offset, str(fields.pop("transaction_id")))
        op = Op(state, str(fields.pop("group")), (element,), **fields)
        return self.world.produce([op.to_record(self.world.names.op, sent.queue)])[0]


def tell(
    spark: SparkSession,
    bootstrap: str,
    prefix: str,
    home: Path,
    beside: Callable[[Story], None] | None = None,
) -> Story:
    """Run resolve while applications do all that they can, then land.

    With `beside` land runs all the time too, and `beside` is called meanwhile. Without it land runs
    once before the end too. A first batch takes longest. The audit judges no check in time where
    the last ops landed a minute after they were stored, as after a first batch on a slow machine.
    """
    world = World(bootstrap, prefix)
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, queues=QUEUES, **SHORT)
    story = Story(world, settings, home / "tables")
    job = Resolve(spark, settings, str(home / "resolve"))

    def land(available_now: bool = True) -> StreamingQuery:
        return land_query(spark, settings, story.tables, home / "land", available_now=available_now)

    landing = None
    try:
        job.start()
        if beside is not None:
            landing = land(available_now=False)
        _happen(story)
        if beside is not None:
            beside(story)
        else:
            assert land().awaitTermination(PATIENCE_SECONDS)
        _end_the_rest(story)
        job.raise_failure()
    finally:
        job.stop(PATIENCE_SECONDS)
        if landing is not None:
            finish_batch(landing, PATIENCE_SECONDS)
    assert land().awaitTermination(PATIENCE_SECONDS)
    return story


def _happen(story: Story) -> None:
    world = story.world
    _by_checks(story)
    _fast(story)
    for queue in range(QUEUES):
        halves = [
            world.message(
                key=b"k%d" % number if number % 2 else None,
                body=b"body %d" % number,
                headers=[("a", b"1"), ("b", None), ("a", b"")],
                real_qid=number % world.partitions if number % 3 == 0 else None,
            )
            for number in range(16)
        ]
        sent = world.send_halves(halves, queue)
        _await_the_next_millisecond(sent)
        world.end(*sent[:12])
        world.end(*sent[12:], state=ROLLBACK)
        story.committed += sent[:12]
        story.rolled_back += sent[12:]
    _refused(story)


def _await_the_next_millisecond(sent: list[Sent]) -> None:
    """The audit takes an end of a half's own millisecond for one that may have come before it."""
    wait_until(lambda: time.time_ns() // 1_000_000 > sent[-1].stored_at_ms)


def _by_checks(story: Story) -> None:
    """Transactions that are asked about: they take a while."""
    for name in ("asked", "given_up", "settled", "late"):
        story.send(name, **({"immunity_seconds": 1} if name == "late" else {}))
    for name in ("pending", "forgotten", "forgotten_later"):
        story.send(name, immunity_seconds=3_600)
    _await_checks(story, "asked", "given_up", "settled", "late")
    story.op(story.by_name["late"])
    for name, state in (("asked", COMMIT), ("late", ROLLBACK)):
        story.op(story.by_name[name], state, from_check=True)
    story.op(story.by_name["settled"], actor="ann")
    _answer_until_given_up(story)
    story.op(story.by_name["given_up"])


def _await_checks(story: Story, *names: str) -> None:
    """Wait until each of these was asked about."""
    asked = {story.by_name[name].half.transaction_id.encode() for name in names}
    checks = story.world.reader(story.world.names.check(story.world.group))
    wait_until(lambda: asked <= {check.key() for check in checks.all()})


def _answer_until_given_up(story: Story) -> None:
    """Answer each check with UNKNOWN."""
    world, sent = story.world, story.by_name["given_up"]
    asked = 0
    until = time.monotonic() + PATIENCE_SECONDS
    while not world.reader(world.names.discarded).all():
        assert time.monotonic() < until
        checks = world.reader(world.names.check(world.group)).all()
        now = sum(1 for one in checks if one.key() == sent.half.transaction_id.encode())
        for _ in range(now - asked):
            story.op(sent, UNKNOWN, from_check=True)
        asked = now


def _fast(story: Story) -> None:
    """One that its producer delivers, one whose end waits, and one that is asked about."""
    world, names = story.world, story.world.names
    fast_id = names.fast_id(world.group, "story")
    for name in ("fast", "fast_waited", "fast_asked"):
        story.send(name, fast_id=fast_id)
    sent = story.by_name["fast"]
    headers = sent.half.to_record(names.half).headers
    at = StoredHalf(sent.queue, sent.offset, sent.stored_at_ms, sent.half, headers)
    world.produce([commit_record(at)])
    story.op(sent, delivered=True)
    story.op(story.by_name["fast_waited"])
    _await_checks(story, "fast_asked")
    story.op(story.by_name["fast_asked"], from_check=True)


def _refused(story: Story) -> None:
    """Ends and records that count for nothing, and what can't be delivered."""
    world, names = story.world, story.world.names
    for name in ("conflict", "second", "mismatch", "repeated"):
        sent = story.send(name)
        if name == "mismatch":
            story.op(sent, group="others")
            story.op(sent, transaction_id="a guess")
        story.op(sent)
    for name in ("conflict", "second"):
        story.op(story.by_name[name], ROLLBACK)
    story.op(story.by_name["repeated"])
    story.op(story.by_name["mismatch"], ROLLBACK)
    story.op(story.by_name["pending"], group="others")
    story.undeliverable = world.send_halves([world.message(topic="nowhere") for _ in range(3)])
    world.end(*story.undeliverable)
    old = story.undeliverable[0].half_id.encode()
    resumed = world.send_half(headers=[("a", b"1"), (RESUMES, old)])
    world.end(resumed)
    story.committed.append(resumed)
    _op_with_blanks(story, story.send("spaced"))
    _op_too_deep_for_spark(story, story.send("deep", queue=1))
    story.op(story.by_name["deep"], ROLLBACK)
    kept = world.message()
    good = kept.to_record(names.half, 0)
    broken = [pair for pair in good.headers if pair[0] != "PGROUP"]
    element = b'{"state":"COMMIT_MESSAGE","group":"orders","offsets":["x"],"transaction_ids":["y"]}'
    (malformed,) = world.produce([Record(names.half, None, b"malformed", broken, 0)])
    half = world.message(transaction_id=kept.transaction_id)
    story.by_name["malformed"] = Sent(half, 0, malformed.offset() or 0, 0)
    world.produce(
        [
            Record(names.op, None, b"not JSON", [("TAGS", b"d")], 0),
            Record(names.op, None, b"{}", [("TAGS", b"d")], 0),
            Record(names.op, None, element, [("TAGS", b"d")], 0),
        ]
    )


def _op_too_deep_for_spark(story: Story, sent: Sent) -> None:
    record = _commit(story, sent)
    deep = b"[" * 1_000 + b"]" * 1_000
    value = b'{"unknown":' + deep + b"," + (record.value or b"")[1:]
    story.world.produce([record._replace(value=value)])


def _op_with_blanks(story: Story, sent: Sent) -> None:
    record = _commit(story, sent, remark='"as \\ it is"')
    spaced = json.dumps(json.loads(record.value or b""), indent=2).encode()
    story.world.produce([record._replace(value=spaced)])


def _commit(story: Story, sent: Sent, **fields: Any) -> Record:
    element = Element(0, sent.offset, sent.half.transaction_id)
    op = Op(COMMIT, sent.half.group, (element,), **fields)
    return op.to_record(story.world.names.op, sent.queue)


def _end_the_rest(story: Story) -> None:
    """Commits behind all else, in every queue, in three batches.

    What came before has been decided when the first is, so it is passed over if not by the second,
    and known to be complete by the third.
    """
    world = story.world
    for _ in range(3):
        for queue in range(QUEUES):
            sent = world.send_halves([world.message(real_qid=queue) for _ in range(8)], queue)
            _await_the_next_millisecond(sent)
            world.end(*sent)
            story.committed += sent
        # asked, late, settled, given_up, spaced, deep, four that are refused something, three fast
        ended = len(story.committed) + len(story.rolled_back) + len(story.undeliverable) + 13
        world.resolutions(ended)
    world.quarantined(13)
