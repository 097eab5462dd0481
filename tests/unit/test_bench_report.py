"""The report of `scripts/bench`: made from results, into a document of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from resolver.bench.report import write_report
from resolver.bench.results import ResultFile
from resolver.errors import ResolverError

MACHINE = {"cores": "2", "Java": "17"}
BEGIN, END = "<!-- written by scripts/bench --report: begin -->", "<!-- end -->"


def results(path: Path, rates: list[int]) -> Path:
    file = ResultFile(path)
    file.begin("scripts/bench latency", "0123456789", MACHINE, {"queues": "4"})
    for round_, rate in enumerate(rates, 1):
        cpu = {"Kafka": rate / 100}
        figures = {"per_second": rate, "rate": 200, "p50_ms": 410.4, "cpu_per_million": cpu}
        file.add(round_, "latency", "200/s", figures)
    return path


def document(folder: Path) -> Path:
    path = folder / "performance.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    return path


def test_a_report_has_medians_and_their_spread_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    found = results(tmp_path / "bench.jsonl", [1_300, 1_100, 1_200])
    page = document(tmp_path)
    write_report(found, page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "cores 2; Java 17" in text
    assert "`scripts/bench latency`" in text and "of 0123456789" in text
    assert "| 200/s | 1,200 (1,100 to 1,300) | 410 (410 to 410) |" in text
    assert "| latency: 200/s | 12 (11 to 13) |" in text  # CPU, by process
    assert "![latency](performance/latency.png)" in text
    assert (tmp_path / "performance" / "latency.png").stat().st_size > 1_000
    write_report(found, page)
    assert page.read_text() == text


def test_goals_are_compared_round_by_round(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    file = ResultFile(path)
    for ours, theirs in ((3_000, 1_000), (1_000, 1_000), (800, 500)):  # a run each, of one round
        file.begin("scripts/bench", "0123456789", MACHINE, {"queues": "4"})
        file.add(1, "rocketmq", "512 bytes", {"per_second": theirs})
        file.add(1, "sustained", "512 bytes, bulk", {"per_second": ours})
        file.add(1, "latency", "200/s", {"p50_ms": 401})
    page = document(tmp_path)
    write_report(path, page)
    text = page.read_text()
    assert "512 bytes, bulk | ≥ 1.5 times | 1.6 (1 to 3) times | reached |" in text
    assert "at 200/s, p50 | ≤ 400 ms | 401 (401 to 401) ms | **missed** |" in text
    assert "512 bytes, threads" not in text  # which was not measured


def test_results_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    found = results(tmp_path / "bench.jsonl", [1_000])
    ResultFile(found).begin("scripts/bench", "0", {**MACHINE, "cores": "4"}, {"queues": "4"})
    with pytest.raises(ResolverError, match="different machine"):
        write_report(found, document(tmp_path))


def test_results_of_two_settings_are_not_mixed(tmp_path: Path) -> None:
    found = results(tmp_path / "bench.jsonl", [1_000])
    ResultFile(found).begin("scripts/bench --quick", "0123456789", MACHINE, {"queues": "8"})
    with pytest.raises(ResolverError, match="different settings"):
        write_report(found, document(tmp_path))
