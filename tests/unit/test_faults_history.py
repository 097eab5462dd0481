"""The history that a fault campaign writes for another judge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resolver.demo.reading import Read
from resolver.protocol import Names
from tests.faults.history import NOWHERE, History
from tests.faults.load import NAME, PARTITIONS, TOPICS, Fate
from tests.faults.sent_log import COMMIT, ROLLBACK, Sent, SentLog


class World:
    """A ledger, and the history that is written of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._file = folder / "history.edn"
        self.sent_log = SentLog(folder / "ledger.db")
        self.history = History(self._file, self.sent_log)

    def send(self, name: str, decided: str | None = COMMIT, fate: Fate = Fate.COMMIT) -> None:
        self.sent_log.sent(Sent(name, fate.name, b"", None))
        if decided:
            self.sent_log.decide(name, decided)

    def operations(self, is_drained: bool = True) -> list[Any]:
        """End the history and read it."""
        self.history.end(is_drained)
        return [parsed(line) for line in self._file.read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_sends_and_polls_are_operations_of_sequential_processes(world: World) -> None:
    world.send("a")
    world.send("b")
    world.history.take([message("b", 0, 5), message("a", 0, 3, topic=1), message("a", 0, 4)])
    world.send("c")
    world.history.take([message("c", 3, 9)])
    operations = world.operations()
    assert [(one[":type"], one[":f"], one[":process"], one[":value"]) for one in operations] == [
        (":invoke", ":send", 1, [[":send", NOWHERE, 1]]),
        (":invoke", ":send", 2, [[":send", NOWHERE, 2]]),
        (":invoke", ":poll", 0, [[":poll"]]),
        (":ok", ":poll", 0, [[":poll", {0: [[5, 2], [4, 1]], PARTITIONS: [[3, 1]]}]]),
        (":ok", ":send", 2, [[":send", 0, [None, 2]]]),
        (":ok", ":send", 1, [[":send", 0, [None, 1]]]),
        (":invoke", ":send", 1, [[":send", NOWHERE, 3]]),
        (":invoke", ":poll", 0, [[":poll"]]),
        (":ok", ":poll", 0, [[":poll", {3: [[9, 3]]}]]),
        (":ok", ":send", 1, [[":send", 3, [None, 3]]]),
    ]
    assert [one[":index"] for one in operations] == list(range(len(operations)))
    times = [one[":time"] for one in operations]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("fate", "decided", "is_found", "drained", "else_"),
    [
        (Fate.COMMIT, COMMIT, True, ":ok", ":ok"),
        (Fate.COMMIT, COMMIT, False, ":ok", ":info"),  # lost, if there is nothing to come
        (Fate.ROLLBACK, ROLLBACK, False, ":fail", ":fail"),
        (Fate.ROLLBACK, ROLLBACK, True, ":fail", ":fail"),  # an aborted read
        (Fate.UNKNOWN, None, False, ":fail", ":info"),
        (Fate.UNKNOWN, None, True, ":fail", ":info"),
        (Fate.UNDELIVERABLE, COMMIT, False, ":fail", ":fail"),
        (Fate.UNDELIVERABLE, COMMIT, True, ":fail", ":fail"),
        (Fate.NOT_PERMITTED, COMMIT, False, ":fail", ":fail"),
    ],
)
def test_a_send_ends_as_its_transaction(
    tmp_path: Path, fate: Fate, decided: str | None, is_found: bool, drained: str, else_: str
) -> None:
    for is_drained, expected in ((True, drained), (False, else_)):
        world = World(tmp_path / str(is_drained))
        world.send("m", decided, fate)
        world.history.take([message("m", 2, 7)] if is_found else [])
        (end,) = (one for one in world.operations(is_drained) if is_end(one))
        assert end[":type"] == expected
        assert end[":value"] == [[":send", 2 if is_found else NOWHERE, [None, 1]]]


def test_a_message_that_is_there_twice_is_polled_twice(world: World) -> None:
    world.send("m")
    for offset in (1, 2):
        world.history.take([message("m", 0, offset)])
    operations = world.operations()
    polled = [one[":value"] for one in operations if one[":type"] == ":ok" and not is_end(one)]
    assert polled == [[[":poll", {0: [[offset, 1]]}]] for offset in (1, 2)]
    assert len([one for one in operations if is_end(one)]) == 1


def test_what_is_not_in_a_real_topic_is_no_operation(world: World) -> None:
    world.history.take([Read(Names().half, 0, 1, None, None, [(NAME, b"m")], 0)])
    assert world.operations() == []


def message(name: str, partition: int, offset: int, topic: int = 0) -> Read:
    return Read(TOPICS[topic], partition, offset, None, b"", [(NAME, name.encode())], 0)


def is_end(operation: Any) -> bool:
    return bool(operation[":f"] == ":send" and operation[":type"] != ":invoke")


def parsed(text: str) -> Any:
    """Read a line of EDN: maps, vectors, keywords as text, whole numbers and nil."""
    parts = re.findall(r"[{}\[\]]|:[a-z-]+|-?\d+|nil", text)
    assert "".join(parts) == re.sub(r"[\s,]", "", text)
    (value,) = _values(iter(parts), "")
    return value


def _values(parts: Iterator[str], end: str) -> list[Any]:
    values: list[Any] = []
    for part in iter(partial(next, parts, end), end):
        if part == "[":
            values.append(_values(parts, "]"))
        elif part == "{":
            pairs = _values(parts, "}")
            values.append(dict(zip(pairs[::2], pairs[1::2], strict=True)))
        elif part.startswith(":"):
            values.append(part)
        else:
            values.append(None if part == "nil" else int(part))
    return values
