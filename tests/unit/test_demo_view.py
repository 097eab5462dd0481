"""What the demo shows: a frame that fits and stays, and plain lines without control codes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from resolver.demo.processes import SHORTENED, clean_environment, described, write_settings
from resolver.demo.reading import Counts, Latency
from resolver.demo.screen import WIDTH, DemoState, Lines, clock, frame, percentile, summary
from resolver.settings import Settings

COUNTS = Counts(
    begun=1_234_567, committed=900_000, committed_by_check=4, discarded=5, checks=6_000_000
)


def state(events: int = 0) -> DemoState:
    made = DemoState(60, 3, phase="orders are placed", counts=COUNTS, latencies=[Latency(0.8, 1.0)])
    made.events.extend((seconds, "something that takes many words to say " * 3)
                       for seconds in range(events))  # fmt: skip
    return made


def drawn(shown: DemoState, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=24)
    console.print(frame(shown, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, WIDTH])
def test_the_frame_fits_a_terminal_and_never_changes_its_height(width: int) -> None:
    heights = {len(drawn(shown, width)) for shown in (DemoState(60, 3), state(1), state(50))}
    assert len(heights) == 1
    assert max(heights) < 24
    assert {len(line) for line in drawn(state(50), width)} == {width}


def test_the_frame_shows_the_counts() -> None:
    text = "\n".join(drawn(state(), WIDTH))
    assert "1,234,567" in text
    assert "899,996" in text  # ended by the shop itself
    assert "0.80 s" in text


def test_lines_tell_each_phase_once_and_each_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines, shown = Lines(every_seconds=3600), state()
    for _ in range(3):
        lines.draw(shown)
    lines.tell(shown, "the shop is open")
    said = [line[7:] for line in capsys.readouterr().out.splitlines()]
    assert said == ["orders are placed", summary(shown), "the shop is open"]


def test_figures() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(value) for value in range(100)], 0.99) == 99.0
    assert clock(125.9) == "02:05"


def test_the_settings_file_is_what_is_shown(tmp_path: Path) -> None:
    loaded = Settings.load(write_settings(tmp_path / "demo.toml"), {}, {})
    assert {name: getattr(loaded, name) for name in SHORTENED} == SHORTENED
    assert all(f"{value:,}" in described() for value in SHORTENED.values())


def test_settings_of_another_resolver_do_not_reach_the_demo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TXRESOLVER_QUEUES", "9")
    monkeypatch.setenv("TXRESOLVER_JAR_CACHE", "jars")
    assert "TXRESOLVER_QUEUES" not in clean_environment()
    assert clean_environment()["TXRESOLVER_JAR_CACHE"] == "jars"
