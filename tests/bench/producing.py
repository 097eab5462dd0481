"""The producer by itself: its rate and round trip, in each of its forms."""

from __future__ import annotations

import json

from .program import Program
from .results import Figures
from .stage import Stage


def producer_alone(stage: Stage, form: str, seconds: float) -> Figures:
    """Send in a form, as fast as it goes; no resolver reads it."""
    with (
        stage.topics() as topics,
        Program(
            "client",
            bootstrap_servers=topics.settings.bootstrap_servers,
            prefix=topics.settings.topic_prefix,
            topic=topics.real,
            form=form,
            seconds=seconds,
        ) as program,
    ):
        said = json.loads(program.result())
    return {
        "per_second": said["transactions_per_second"],
        "round_trip_mean_ms": said["round_trip_mean_ms"],
        "round_trip_p50_ms": said["round_trip_p50_ms"],
        "round_trip_p99_ms": said["round_trip_p99_ms"],
        "cpu_us": said["cpu_us_per_transaction"],
    }
