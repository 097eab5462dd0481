"""The producer by itself: its rate and round trip, in each of its forms."""

from __future__ import annotations

import json

from .program import Program
from .results import Figures
from .setup import Setup


def producer_alone(setup: Setup, form: str, seconds: float) -> Figures:
    """Send in a form, as fast as it goes; no resolver reads it."""
    with (
        setup.topics() as topics,
        Program(
            "client",
            bootstrap_servers=topics.settings.bootstrap_servers,
            prefix=topics.settings.topic_prefix,
            topic=topics.real,
            form=form,
            seconds=seconds,
        ) as program,
    ):
        figures = json.loads(program.result())
    return {
        "per_second": figures["transactions_per_second"],
        "round_trip_mean_ms": figures["round_trip_mean_ms"],
        "round_trip_p50_ms": figures["round_trip_p50_ms"],
        "round_trip_p99_ms": figures["round_trip_p99_ms"],
        "cpu_us": figures["cpu_us_per_transaction"],
    }
