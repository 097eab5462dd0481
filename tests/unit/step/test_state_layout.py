"""The state of a queue without fast halves is the one of before there were any, byte for byte."""

from __future__ import annotations

from hashlib import sha256

from . import records
from .driver import Driver
from .short import end
from .vocabulary import Rules


def test_without_fast_halves_each_byte_of_the_state_is_as_it_was() -> None:
    queue = Driver(Rules(transaction_check_max=1, group_topics={"g1": []}))
    batches = [
        [records.half(offset, 5_000 + offset, group=f"g{offset % 3}") for offset in range(9)],
        [end(0, 5_020, 0, 3), end(1, 5_021, 6, state="ROLLBACK"), end(2, 5_022, 12)],
        [records.half(4_100, 5_100), records.half_fence(4_101, 5_110, 3)],
        [records.fence(3, 90_000)],
        [records.op(4, 90_100, [], "UNKNOWN", from_check=True), end(5, 90_101, 4_100, actor="a")],
        [records.fence(6, 200_000)],
        [end(7, 200_010, 8, state="UNKNOWN", group="g2", from_check=True)],
        [records.fence(8, 900_000)],
    ]
    digest = sha256()
    for number, sent in enumerate(batches):
        queue.at(10_000 * (number + 1), *sent)
        for key, value in sorted(queue.state.items()):
            digest.update(f"{number} {key} {len(value)} ".encode() + value)
    assert {key.split("/")[0] for key in queue.state} == {"body", "pending", "queue", "settled"}
    assert digest.hexdigest() == (
        "ddae0d2bc1aec23a81f016e2d6a2d1274a75406ecf1f872af53c3573ac39571e"
    )
