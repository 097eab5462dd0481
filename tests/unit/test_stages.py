"""The stages of a start say what they do, and with the seconds when it is done."""

from __future__ import annotations

import logging
import re
import threading
import time

import pytest

from resolver.up import stages
from resolver.up.stages import stage
from tests.support.patience import PATIENCE_SECONDS


def test_a_stage_says_that_it_begins_lasts_and_is_done(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "resolver")
    monkeypatch.setattr(stages, "_STILL_SECONDS", 0.01)
    with stage("starting Spark (its log is there)", "Spark runs"):
        until = time.monotonic() + PATIENCE_SECONDS
        while not any("still" in said for said in caplog.messages):
            assert time.monotonic() < until, "it said nothing while it lasted"
            threading.Event().wait(0.005)
    begun, still, *_, done = caplog.messages
    assert begun == "starting Spark (its log is there)"
    assert re.fullmatch(r"still starting Spark, \d+ s so far", still)
    assert re.fullmatch(r"Spark runs, after \d+\.\d s", done)


def test_a_stage_that_fails_is_not_called_done(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "resolver")
    with pytest.raises(OSError, match="disk"), stage("starting Spark", "Spark runs"):
        raise OSError("disk")
    assert caplog.messages == ["starting Spark"]
