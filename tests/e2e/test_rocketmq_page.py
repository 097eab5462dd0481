"""RocketMQ's own example in docs/rocketmq.md, run as it stands beside a resolver."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from resolver.producer.producer_base import ProducerBase
from tests.support.world import World

from .conftest import Resolving

PAGE = Path(__file__).parents[2] / "docs" / "rocketmq.md"
SOON = {
    "transaction_timeout_ms": 500,
    "transaction_check_interval_ms": 500,
    "fence_interval_ms": 100,
}


@pytest.mark.gate
def test_three_of_ten_are_committed_and_three_rolled_back_by_their_checks(
    world: World, resolving: Resolving, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The example leaves the prefix to its default, which other tests may be using.
    monkeypatch.setitem(ProducerBase.__init__.__kwdefaults__ or {}, "topic_prefix", world.prefix)
    example = ModuleType("example")
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, "rocketmq.md", "exec"), example.__dict__)  # noqa: S102

    with resolving(**SOON, transaction_check_max=2):
        with example.send_ten(world.real, world.bootstrap):
            discarded = world.discarded(4)
            committed = world.committed(3)
            resolutions = world.resolutions(10)

    ends = Counter((said.outcome, said.source) for said in resolutions)
    assert ends == {("COMMIT", "CHECK"): 3, ("ROLLBACK", "CHECK"): 3, ("DISCARD", "LIMIT"): 4}
    assert sorted(message.key() or b"" for message in committed) == [b"KEY1", b"KEY4", b"KEY7"]
    assert sorted(message.key() or b"" for message in discarded) == [
        b"KEY0",
        b"KEY3",
        b"KEY6",
        b"KEY9",
    ]
    (first,) = [message for message in committed if message.key() == b"KEY1"]
    assert first.value() == b"Hello RocketMQ 1"
    assert ("TAGS", b"Tag1") in (first.headers() or [])
