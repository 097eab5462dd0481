"""A soak sees what grows in its last third."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from resolver.faults.samples import Samples

SECOND, MORE = 100, 120


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
        ("batch: s", True),
    ],
)
def test_what_grows_is_named_unless_it_keeps_all(
    tmp_path: Path, name: str, must_be_flat: bool
) -> None:
    file = tmp_path / "samples.jsonl"
    lines = [{"at": at, name: value} for at, value in enumerate((10, SECOND, MORE))]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert bool(Samples(file).grown()) == must_be_flat
