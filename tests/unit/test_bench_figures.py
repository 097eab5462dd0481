"""What `scripts/bench` makes of a query's progress, of processes' CPU and of neighbours."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench.growth import in_turn_figures
from tests.bench.processes import Usage, spent
from tests.bench.progress import batch_figures
from tests.bench.results import per_million
from tests.bench.rocketmq import beside_ours

NOTHING = {"latestOffset": 1, "walCommit": 2, "queryPlanning": 3, "addBatch": 4, "commitOffsets": 5}


def batch(number: int, took: int, end: int, start: int | None = 0, rows: int = 1) -> Any:
    def offsets(at: int | None) -> str | None:
        return None if at is None else json.dumps({"tx.half": {"0": at, "1": 10 * at}})

    return SimpleNamespace(
        batchId=number,
        numInputRows=rows,
        durationMs={"triggerExecution": took, **NOTHING, "addBatch": took - 11},
        sources=[SimpleNamespace(startOffset=offsets(start), endOffset=offsets(end))],
    )


def figures(*batches: Any, after: int = -1) -> dict[str, Any]:
    return batch_figures(SimpleNamespace(recentProgress=batches), after)  # type: ignore[arg-type]


def test_batches_are_those_after_one_that_had_records() -> None:
    found = figures(
        batch(4, 9_000, end=1),
        batch(5, 100, end=3, start=1),
        batch(6, 700, end=3, start=3, rows=0),
        batch(7, 300, end=6, start=3),
        batch(8, 200, end=7, start=6),
        after=4,
    )
    assert (found["batches"], found["batch_p50_ms"], found["batch_max_ms"]) == (3, 200, 300)
    assert found["batch_records"] == 22  # of 22, 33 and 11
    assert found["batch_parts_ms"] == {**NOTHING, "addBatch": 189}


def test_a_query_without_batches_has_no_times() -> None:
    assert figures() == {}
    assert figures(batch(1, 100, end=1), after=1) == {}


def test_the_first_batch_begins_nowhere_and_one_planned_before_a_restart_lacks_parts() -> None:
    restarted = batch(0, 100, end=2, start=None)
    del restarted.durationMs["queryPlanning"]
    found = figures(restarted)
    assert found["batch_records"] == 22
    assert found["batch_parts_ms"]["queryPlanning"] == 0


def test_cpu_is_that_of_each_role_and_what_the_machine_did_besides() -> None:
    before = Usage({"driver": 1.0, "Kafka": 5.0, "consumer": 2.0}, {}, busy=100.0, stolen=7.0)
    after = Usage({"driver": 2.0, "Kafka": 5.0, "producer": 3.0}, {}, busy=106.0, stolen=7.5)
    assert spent(before, after) == {"driver": 1, "producer": 3, "elsewhere": 2, "steal": 0.5}


def test_what_stands_by_beside_rocketmq_is_kept_as_one() -> None:
    broker = {"RocketMQ's broker": 4.0, "producer": 2.0, "steal": 0.5}
    found = beside_ours({**broker, "driver": 0.1, "Kafka": 0.2, "Spark's JVM": 0.3})
    assert found == {**broker, "stands by": pytest.approx(0.6)}


def test_cpu_is_told_for_a_million() -> None:
    assert per_million({"Kafka": 3.0}, 20_000) == {"cpu_per_million": {"Kafka": 150.0}}


def test_each_is_compared_with_its_neighbours_alone() -> None:
    found = in_turn_figures([110, 330], [100, 200, 300])  # the machine slows down meanwhile
    assert (found["least_times"], found["most_times"]) == (0.55, 1.65)
    assert found["times"] == pytest.approx(1.1)
    assert (found["many_batch_p50_ms"], found["few_batch_p50_ms"]) == (220, 200)
