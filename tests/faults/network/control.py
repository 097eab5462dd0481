"""The proxy as the campaign sees it: its process, and the rules that hold for now."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from resolver.broker.ports import HOST

from .late import Moment
from .rules import Selection

_SECONDS = 30.0


@dataclass(frozen=True)
class Story:
    """What a rule has done so far: how many frames of each API, the first of them, and if it ends.

    `over`: the rule has nothing left to do.
    """

    counts: dict[str, int] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    over: bool = False

    def last_value(self, what: str, key: str = "frame") -> str:
        """Return what the last event of a kind says; empty where there was none."""
        return next((event[key] for event in reversed(self.events) if event["what"] == what), "")

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        return ", ".join(f"{count} {api}" for api, count in sorted(self.counts.items()))


class Control:
    """Commands the proxy that listens at a port for that."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def rule(
        self,
        act: str,
        selection: Selection,
        seconds: float = 0.0,
        moment: Moment | None = None,
    ) -> Iterator[RuleInForce]:
        """Let a rule hold for the length of the block."""
        command = {"act": act, "seconds": seconds, **asdict(selection)}
        if moment is not None:
            command["moment"] = asdict(moment)
        rule = RuleInForce(self, self._ask({"add": command})["rule"])
        try:
            yield rule
        finally:
            rule.end()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        with socket.create_connection((HOST, self._port), _SECONDS) as connection:
            connection.sendall(json.dumps(command).encode() + b"\n")
            with connection.makefile() as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer


class RuleInForce:
    """A rule that holds, and what it has done."""

    def __init__(self, control: Control, number: int) -> None:
        self._control = control
        self._number = number
        self._last: Story | None = None

    @property
    def story(self) -> Story:
        """What it has done; after its end what it had."""
        return self._last or Story(**self._control._ask({"look": self._number}))

    def end(self) -> None:
        """Take it away, once."""
        if self._last is None:
            self._last = Story(**self._control._ask({"remove": self._number}))
