"""A soak sees what grows in its last third."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.samples import Samples, batch_seconds

SECOND, MORE = 100, 120
HEAP = {"the resolver, java: heap MiB": 200}


@pytest.mark.parametrize(
    ("name", "must_be_flat"),
    [
        ("the resolver, python: MiB", True),
        ("the resolver, workers: MiB", True),
        ("the agent, python: threads", True),
        ("the resolver, java: MiB", False),
        ("the resolver, java: heap MiB", True),
        ("the resolver, java: descriptors", True),
        ("first/checkpoints: files", True),
        ("first/checkpoints/resolve/spark/state: files", True),
        ("first/checkpoints/resolve/spark/state: MiB", True),
        ("first/spark: files", True),
        ("first/tables: files", False),
        ("broker/data: files", False),
        ("batch / machine", True),
        ("batch: s", False),
    ],
)
def test_what_grows_is_named_unless_it_keeps_all(
    tmp_path: Path, name: str, must_be_flat: bool
) -> None:
    lines = [{"at": at, **HEAP, name: value} for at, value in enumerate((10, SECOND, MORE))]
    assert bool(written(tmp_path, lines).grown()) == must_be_flat


def test_what_grows_from_nothing_is_named(tmp_path: Path) -> None:
    lines = [{"at": at, **HEAP, "first/spark: files": at // 2} for at in range(3)]
    assert written(tmp_path, lines).grown() == ["first/spark: files: 0.00, then 1.00"]


def test_without_the_heap_in_each_third_nothing_is_flat(tmp_path: Path) -> None:
    assert written(tmp_path, [{"at": at, **HEAP} for at in range(3)]).grown() == []
    for lines in (
        [{"at": 0}, {"at": 1, **HEAP}, {"at": 2, **HEAP}],
        [{"at": at} for at in range(3)],
    ):
        assert "no full collection" in written(tmp_path, lines).grown()[-1]


@pytest.mark.parametrize("cut", range(30))
def test_of_a_long_log_the_last_batches_count_wherever_it_is_cut(tmp_path: Path, cut: int) -> None:
    log = tmp_path / "resolver.log"
    batch = (
        "2026-11-24 09:02:39,000 DEBUG batch 7: deciding\n"
        "2026-11-24 09:02:39,250 DEBUG batch 7: done, for Spark to note in its commit log\n"
    )
    log.write_text(batch * 500 + "x" * cut)
    assert batch_seconds(log) == 0.25


def written(folder: Path, lines: list[dict[str, int]]) -> Samples:
    file = folder / "samples.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Samples(file)
