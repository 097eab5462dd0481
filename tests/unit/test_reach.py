"""Where no broker answers, one sentence says so, and librdkafka is silent."""

from __future__ import annotations

import logging

import pytest

from resolver.errors import SettingsError
from resolver.kafka.reach import await_broker
from resolver.settings import Settings


def test_servers_that_do_not_answer_are_named_with_the_reason_and_the_remedy(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    nobody = Settings(bootstrap_servers="127.0.0.1:1")
    with (
        caplog.at_level(logging.WARNING, "resolver"),
        pytest.raises(SettingsError, match=r"127\.0\.0\.1:1 answers \(.*refused.*\); check boot"),
    ):
        await_broker(nobody, patience_seconds=0.5)
    assert "%" not in capfd.readouterr().err


def test_missing_servers_are_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="bootstrap_servers is empty"):
        await_broker(Settings())
