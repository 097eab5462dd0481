"""What ends badly is warned about: at once, then once a minute with its count."""

from __future__ import annotations

import logging

import pytest

from resolver.protocol import Names
from resolver.resolve.delivery.notices import Notices
from resolver.resolve.delivery.packed import DecisionRecords, Output

NAMES = Names("tx.")
DELIVERED = DecisionRecords(Output("orders.placed", None, b"fine", (), -1, 0))


def discarded(group: str, topic: str, error: str) -> DecisionRecords:
    headers = {"PGROUP": group, "REAL_TOPIC": topic, "REASON": "UNDELIVERABLE", "ERROR": error}
    return DecisionRecords(_output(NAMES.discarded, headers))


def quarantined(reason: str) -> DecisionRecords:
    return DecisionRecords(_output(NAMES.quarantine, {"REASON": reason, "ERROR": "it says why"}))


def _output(topic: str, headers: dict[str, str]) -> Output:
    pairs = tuple((name, value.encode()) for name, value in headers.items())
    return Output(topic, None, b"body", pairs, -1, 0)


class SetClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def notices(clock: SetClock, caplog: pytest.LogCaptureFixture) -> Notices:
    caplog.set_level(logging.WARNING, "resolver")
    return Notices(NAMES, clock)


def test_the_first_is_named_at_once_and_the_others_of_a_minute_are_counted(
    notices: Notices, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    undeliverable = discarded("orders", "orders.placed", "the topic does not exist")
    notices.count([DELIVERED, undeliverable, undeliverable])
    notices.warn()
    notices.count([undeliverable])
    assert caplog.messages == [
        "1 record of group 'orders' for topic 'orders.placed' ended as UNDELIVERABLE: "
        "now in tx.discarded (the topic does not exist). See them: "
        "txresolver kafka console-consumer --topic tx.discarded --from-beginning "
        "--isolation-level read_committed --formatter-property print.headers=true"
    ]
    clock.now = 60.0
    notices.warn()
    assert caplog.messages[1:] == [caplog.messages[0].replace("1 record", "2 records")]


def test_kinds_are_told_apart_and_forgotten_after_a_minute_without_any(
    notices: Notices, clock: SetClock, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = [discarded("orders", "a", "gone"), discarded("orders", "b", "gone"), quarantined("X")]
    notices.count(kinds)
    assert len(caplog.messages) == 3
    first, _ = caplog.messages[2].split(". See them: ")
    assert first == "1 record ended as X: now in tx.quarantine (it says why)"
    clock.now = 60.0
    notices.warn()
    assert len(caplog.messages) == 3
    notices.count(kinds)
    assert len(caplog.messages) == 6


def test_a_flood_of_made_up_groups_is_one_kind(
    notices: Notices, caplog: pytest.LogCaptureFixture
) -> None:
    notices.count([discarded(f"group {number}", "a", "gone") for number in range(1_000)])
    assert len(caplog.messages) == 51
    last, _ = caplog.messages[-1].split(". See them: ")
    assert last == "1 record ended as UNDELIVERABLE: now in tx.discarded (gone)"
