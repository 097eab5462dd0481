"""Where no broker answers, one sentence says so, and librdkafka is silent."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from resolver.cli import app
from resolver.errors import AuditError, NoBroker, SettingsError
from resolver.kafka.reach import await_broker
from resolver.settings import Settings


def test_servers_that_do_not_answer_are_named_with_the_reason_and_the_remedy(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    nobody = Settings(bootstrap_servers="127.0.0.1:1")
    with (
        caplog.at_level(logging.WARNING, "resolver"),
        pytest.raises(NoBroker, match=r"127\.0\.0\.1:1 answers \(.*refused.*\); check boot"),
    ):
        await_broker(nobody, patience_seconds=3)
    assert "%" not in capfd.readouterr().err


def test_an_audit_without_a_broker_says_that_it_could_not_audit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 1 would say that something is violated."""
    briefly = partial(await_broker, patience_seconds=0.5)
    monkeypatch.setattr("resolver.cli.audit.await_broker", briefly)
    options = ("--topics", "--bootstrap-servers=127.0.0.1:1", f"--tables={tmp_path}")
    refused = CliRunner().invoke(app, ["audit", f"--home={tmp_path}", *options])
    assert isinstance(refused.exception, AuditError)
    assert "127.0.0.1:1" in str(refused.exception)


def test_missing_servers_are_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="bootstrap_servers is empty"):
        await_broker(Settings())
