"""The agent's log: failures by their transaction, tracebacks seldom, a count a minute."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from resolver.errors import ListenerError
from resolver.producer.agent.check_log import CheckLog
from resolver.producer.agent.listener_path import load_listener
from resolver.protocol import TransactionStatus

AWAY = ConnectionError("the database is away")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock, caplog: pytest.LogCaptureFixture) -> CheckLog:
    caplog.set_level(logging.INFO, "resolver")
    return CheckLog("orders", clock)


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[bool]:
    return [record.exc_info is not None for record in caplog.records]


def test_each_failure_names_its_transaction_and_one_a_minute_has_a_traceback(
    log: CheckLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        log.failed(f"id-{number}", "check_local_transaction failed", AWAY)
    log.failed("id-3", "check_local_transaction failed", ValueError("another kind"))
    assert [f"id-{number}" in said for number, said in enumerate(caplog.messages)] == [True] * 4
    assert all("the database is away" in said for said in caplog.messages[:3])
    assert tracebacks(caplog) == [True, False, False, True]
    clock.now = 60.0
    log.failed("id-4", "check_local_transaction failed", AWAY)
    assert tracebacks(caplog)[-1]


def test_a_minutes_answers_are_counted_and_a_minute_without_any_is_silent(
    log: CheckLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        log.answered(TransactionStatus.COMMIT_MESSAGE)
    log.answered(TransactionStatus.ROLLBACK_MESSAGE)
    log.tell()
    assert caplog.messages == []
    clock.now = 60.0
    log.tell()
    assert caplog.messages == [
        "group orders, last minute: 3 checks asked: 2 COMMIT_MESSAGE, 1 ROLLBACK_MESSAGE"
    ]
    clock.now = 120.0
    log.tell()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("source", "doing"),
    [
        ("def listener():\n    raise ConnectionError('the database is away')", "making it"),
        ("raise ConnectionError('the database is away')", "importing shop_"),
    ],
)
def test_a_database_that_is_away_is_no_listener_that_is_not_there(
    source: str, doing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"shop_{doing.partition(' ')[0]}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ListenerError, match=f"{doing}.* failed: .*the database is away.*what it needs"
    ):
        load_listener(f"{name}:listener")
    with pytest.raises(ListenerError, match="can't load the listener 'shop_none:listener'"):
        load_listener("shop_none:listener")
