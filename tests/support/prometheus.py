"""A real Prometheus, which scrapes real processes of a test."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.support.patience import PATIENCE_SECONDS, wait_until

ALERTS = Path(__file__).parents[2] / "conf" / "prometheus-alerts.yml"
_SCRAPE_SECONDS = 1


@dataclass(frozen=True)
class Prometheus:
    """Asks a running Prometheus."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression has now."""
        return list(self._get("query", query=expression)["result"])

    def range(self, expression: str, start: float, end: float) -> list[dict[str, Any]]:
        """Return the series of an expression over a time, with a value each second."""
        asked = {"query": expression, "start": start, "end": end, "step": _SCRAPE_SECONDS}
        return list(self._get("query_range", **asked)["result"])

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        alerts = self._get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, path: str, **asked: Any) -> Any:
        url = f"{self.url}/api/v1/{path}?{urlencode(asked)}"
        with urlopen(url, timeout=60) as answer:  # noqa: S310 - on this machine
            return json.load(answer)["data"]


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str]) -> Iterator[Prometheus]:
    """Run a Prometheus with our alerts, which scrapes `targets`: addresses by the job's name."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [address]}]}
        for job, address in targets.items()
    ]
    every = {"scrape_interval": f"{_SCRAPE_SECONDS}s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": [str(ALERTS)], "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))  # YAML takes JSON
    port = _free_port()
    program = shutil.which("prometheus")
    assert program is not None, "no Prometheus found: scripts/setup --tests installs it"
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    running = Prometheus(f"http://127.0.0.1:{port}")
    try:
        wait_until(lambda: _answers(running.url))
        yield running
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/-/ready", timeout=10) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
