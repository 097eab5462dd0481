"""What the land query's checkpoint tells of its progress."""

from __future__ import annotations

from pathlib import Path

from resolver.demo.reading import has_landed, landed_offsets


def plan(checkpoint: Path, batch: int, offsets: str) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{offsets}')


def commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits").mkdir(exist_ok=True)
    (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_only_committed_batches_count(tmp_path: Path) -> None:
    assert landed_offsets(tmp_path) == {}
    for batch, offset in ((9, 10), (10, 20)):
        plan(tmp_path, batch, f'{{"tx.half":{{"0":{offset},"1":0}}}}')
        commit(tmp_path, batch)
    plan(tmp_path, 11, '{"tx.half":{"0":30,"1":0}}')
    assert landed_offsets(tmp_path) == {("tx.half", 0): 20, ("tx.half", 1): 0}


def test_everything_wanted_has_to_be_there(tmp_path: Path) -> None:
    assert has_landed(tmp_path, {("tx.op", 0): 0})
    plan(tmp_path, 0, '{"tx.half":{"0":20}}')
    commit(tmp_path, 0)
    assert has_landed(tmp_path, {("tx.half", 0): 20})
    assert not has_landed(tmp_path, {("tx.half", 0): 21})
    assert not has_landed(tmp_path, {("tx.half", 0): 20, ("tx.half", 1): 1})
