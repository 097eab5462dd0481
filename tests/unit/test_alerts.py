"""Each alert fires once; alerts, dashboard and the page name metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resolver.watch.metrics import HISTOGRAM, METRICS

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "conf" / "prometheus-alerts.yml"
SERIES = Path(__file__).with_name("alerts.yml")
DASHBOARD = json.loads((ROOT / "conf" / "grafana-dashboard.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
NAMES = re.findall(r"alert: (\w+)", ALERTS.read_text(encoding="utf-8"))


def promtool(*arguments: str) -> None:
    program = shutil.which("promtool")
    assert program is not None, "no promtool found: scripts/setup --tests installs it"
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_once_and_not_before(tmp_path: Path) -> None:
    series = SERIES.read_text(encoding="utf-8").replace("RULES", str(ALERTS))
    assert [name for name in NAMES if f'alertname="{name}"' not in series] == []
    (tmp_path / "alerts.yml").write_text(series, encoding="utf-8")
    promtool("test", "rules", str(tmp_path / "alerts.yml"))


def test_the_pages_scrape_configuration_is_one(tmp_path: Path) -> None:
    (configuration,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "prometheus.yml").write_text(configuration, encoding="utf-8")
    shutil.copy(ALERTS, tmp_path)
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def test_the_page_says_what_to_do_at_each_alert() -> None:
    assert re.findall(r"^### (TxResolver\w+)$", PAGE, re.MULTILINE) == NAMES


def test_the_page_has_every_metric_as_it_is() -> None:
    rows = {
        f"| `{known.name}` | {known.kind} | {', '.join(f'`{label}`' for label in known.labels)} "
        f"| {known.about} |".replace("|  |", "| |")
        for known in METRICS.values()
    }
    there = {line for line in PAGE.splitlines() if line.startswith("| `txresolver_")}
    assert there == rows


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from re.findall(r"expr: (?:>-\n)?(.+(?:\n {10}.+)*)", ALERTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_dashboard_and_alerts_ask_for_metrics_and_labels_that_there_are(expression: str) -> None:
    for name, labels in re.findall(r"(txresolver_\w+)(?:\{([^}]*)\})?", expression):
        known = METRICS.get(name) or METRICS[re.sub(r"_(bucket|count|sum)$", "", name)]
        assert name == known.name or known.kind == HISTOGRAM
        assert set(re.findall(r"(\w+)!?=~?\"", labels)) <= set(known.labels)


def test_each_panel_says_what_it_shows() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if not panel["description"]] == []
