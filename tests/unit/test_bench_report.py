"""The report of `scripts/bench`: made from results, into a document of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from resolver.errors import ResolverError
from tests.bench.report import write_report
from tests.bench.results import ResultFile

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


def page_of(folder: Path, *found: tuple[str, str, dict[str, Any]]) -> str:
    """Return what is reported of cases (measurement, case, figures) of one round."""
    path = folder / "bench.jsonl"
    file = ResultFile(path)
    file.begin("scripts/bench growth", "0123456789", MACHINE, {"queues": "4"})
    for one in found:
        file.add(1, *one)
    page = document(folder)
    write_report(path, page)
    return page.read_text()


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
    bulk = "512 bytes, bulk: 100 messages per local transaction"
    assert f"{bulk} | ≥ 1.5 times | 1.6 (1 to 3) times | reached |" in text
    assert "at 200/s, p50 | ≤ 400 ms | 401 (401 to 401) ms | **missed** |" in text
    assert "512 bytes, threads" not in text  # which was not measured


def test_checks_that_are_missing_miss_the_goal(tmp_path: Path) -> None:
    late = {"checks": 10, "missing": 59_990, "p50_ms": float("inf"), "p99_ms": float("inf")}
    text = page_of(tmp_path, ("held", "1,000,000 pending", late))
    assert "| 1,000 checks due a second: late, p99 | ≤ 3,000 ms | inf ms | **missed** |" in text
    assert "| 1,000 checks due a second: missing | ≤ 0 | 59,990 | **missed** |" in text
    assert "| 1,000,000 pending | 10 | 59,990 | inf | inf |" in text


def test_checks_that_all_came_in_time_reach_the_goal(tmp_path: Path) -> None:
    late = {"checks": 60_000, "missing": 0, "p99_ms": 2_000}
    text = page_of(tmp_path, ("held", "1,000,000 pending", late))
    assert "| 1,000 checks due a second: late, p99 | ≤ 3,000 ms | 2,000 ms | reached |" in text
    assert "| 1,000 checks due a second: missing | ≤ 0 | 0 | reached |" in text


def grown(settled: int, pending: int = 0) -> dict[str, Any]:
    return {
        "settled": settled,
        "pending": pending,
        "batch_p50_ms": 300,
        "state_mb": 1.5,
        "state_memory_mb": 40,
        "settled_then": settled + 60_000,
        "per_second": 20_000,
        "cpu_per_million": {"driver": 17},
        "memory_mb": {"driver": 500},
    }


def test_growth_says_how_many_are_settled_and_pending_when_each_is_measured(
    tmp_path: Path,
) -> None:
    text = page_of(
        tmp_path,
        ("queues", "4 queues", grown(0)),
        ("bodies", "512 bytes", grown(0)),
        ("settled", "100,000 settled", grown(100_000, pending=1_000)),
        ("settled", "10,000,000 beside 100,000", {"times": 1.25, "few_batch_p50_ms": 310}),
    )
    growth, _, rest = text.partition("### Growth")[2].partition("### Settled, in turn")
    assert "| 100,000 settled | 100,000 | 1,000 | 300 | 1.5 | 40 | 160,000 | 20,000 |" in growth
    assert "| 4 queues | 0 | 0 | 300 | 1.5 | 40 | 60,000 | 20,000 |" in growth
    assert "beside" not in growth  # which has none of these figures
    assert "| 10,000,000 beside 100,000 | 310 | 1.25 |" in rest
    assert (
        "with 10,000,000 settled beside one with 100,000 | ≤ 1.2 times | 1.25 times | **m" in text
    )
    for table, figure in (("CPU", 17), ("Memory", 500)):  # each measurement that has the figure
        rows = text.partition(f"### {table}\n")[2].partition("###")[0]
        assert [row for row in rows.splitlines() if row.endswith(f"| {figure} |")] == [
            f"| queues: 4 queues | {figure} |",
            f"| bodies: 512 bytes | {figure} |",
            f"| settled: 100,000 settled | {figure} |",
        ]


def test_a_process_that_a_case_has_not_is_left_blank_and_one_that_did_nothing_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bench.jsonl"
    file = ResultFile(path)
    for cpu in ({"Kafka": 90, "elsewhere": 3}, {"Kafka": 80}):
        file.begin("scripts/bench", "0123456789", MACHINE, {"queues": "4"})
        file.add(1, "latency", "200/s", {"cpu_per_million": cpu})
        file.add(1, "rocketmq", "512 bytes", {"cpu_per_million": {"consumer": 30}})
    page = document(tmp_path)
    write_report(path, page)
    text = page.read_text()
    assert "| | Kafka | consumer | elsewhere |" in text
    assert "| latency: 200/s | 85 (80 to 90) |  | 2 (0 to 3) |" in text
    assert "| rocketmq: 512 bytes |  | 30 (30 to 30) |  |" in text


def test_the_machine_is_told_by_a_loop_beside_the_cases(tmp_path: Path) -> None:
    text = page_of(
        tmp_path,
        ("latency", "200/s", {"p50_ms": 400, "loop_ms": 210.4}),
        ("latency", "2,000/s", {"p50_ms": 500, "loop_ms": 330.0}),
    )
    assert "A fixed loop, after each case: 270 (210 to 330) ms." in text


def test_results_of_two_machines_are_not_mixed(tmp_path: Path) -> None:
    found = results(tmp_path / "bench.jsonl", [1_000])
    ResultFile(found).begin("scripts/bench", "0", {**MACHINE, "cores": "4"}, {"queues": "4"})
    with pytest.raises(ResolverError, match="different machine"):
        write_report(found, document(tmp_path))


def test_rounds_of_two_settings_are_not_mixed(tmp_path: Path) -> None:
    found = results(tmp_path / "bench.jsonl", [1_000])
    again = ResultFile(found)
    again.begin("scripts/bench --quick", "0123456789", MACHINE, {"queues": "8"})
    again.add(1, "latency", "200/s", {"p50_ms": 300})
    with pytest.raises(ResolverError, match="different settings of latency"):
        write_report(found, document(tmp_path))


def test_settings_are_told_by_measurement_where_they_differ(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    file = ResultFile(path)
    for name, queues in (("latency", "4"), ("idle", "8"), ("checks", "8")):
        settings = {"trigger": "100 ms", "queues": queues}
        file.begin(f"scripts/bench {name}", "0123456789", MACHINE, settings)
        file.add(1, name, "a case", {"p50_ms": 300, "cores": 0.1})
    page = document(tmp_path)
    write_report(path, page)
    text = page.read_text()
    assert "\nSettings: trigger 100 ms.\n" in text
    assert "\nAnd of latency: queues 4.\n" in text
    assert "\nAnd of idle, checks: queues 8.\n" in text


def test_a_run_that_measured_nothing_has_nothing_to_report(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    ResultFile(path).begin("scripts/bench", "0123456789", MACHINE, {"queues": "4"})
    with pytest.raises(ResolverError, match="nothing was measured yet"):
        write_report(path, document(tmp_path))
