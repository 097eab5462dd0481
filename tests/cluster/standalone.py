"""A standalone Spark cluster as processes, and spark-submit to it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from resolver.broker import spark_jars
from resolver.spark.class_archive import archive_options

from .process import Process

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
SPARK_HOME = Path(pyspark.__file__).parent
#: One job's share: land and resolve run side by side.
_SHARE = ["--total-executor-cores", "2", "--executor-memory", "600m", "--driver-memory", "800m"]


class Cluster:
    """A master and a worker; jobs are given to it with `submit`, and end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.master = ""
        self._running = ExitStack()

    def start(self) -> None:
        """Return when the worker has found its master."""
        master = self._daemon("master", ["--port", "0", "--webui-port", "0"])
        self.master = master.until_said(r"Starting Spark master at (spark://\S+)")[1]
        # More cores than the machine may have, for two jobs with two tasks each.
        share = ["--cores", "4", "--memory", "2g", "--work-dir", str(self.folder / "work")]
        place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        worker = self._daemon("worker", [*place, *share])
        worker.until_said("Successfully registered with master")

    def submit(
        self,
        name: str,
        python: Path,
        script: Path,
        arguments: Sequence[str],
        options: Sequence[str] = (),
    ) -> Process:
        """Give a script to spark-submit, with the Python of its driver and its executors."""
        jars = ",".join(map(str, spark_jars()))
        submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self.master, "--jars", jars]
        command = [*submit, *_SHARE, *options, str(script), *arguments]
        return self._run(name, command, {"PYSPARK_PYTHON": str(python)})

    def stop(self) -> None:
        """End everything, the newest first."""
        self._running.close()

    def _daemon(self, name: str, arguments: Sequence[str]) -> Process:
        """Run the page's line for it; of an option that is given twice Spark takes the last."""
        (line,) = re.findall(rf"`spark-class (org\.apache\.spark\.deploy\.{name}\.[^`]*)`", PAGE)
        given = shlex.split(line.replace("spark://127.0.0.1:7077", self.master))
        command = [str(SPARK_HOME / "bin" / "spark-class"), *given, *arguments]
        return self._run(name, command, {"SPARK_DAEMON_MEMORY": "256m"})

    def _run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Process:
        # Its JVMs have the class path that the archive was made for: each starts in half the time.
        java = " ".join([os.environ.get("JAVA_TOOL_OPTIONS", ""), *archive_options()])
        ours = {
            "JAVA_TOOL_OPTIONS": java,
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        process = Process(name, command, self.folder, {**ours, **environment})
        self._running.callback(process.stop)
        return process


class PageCommand(NamedTuple):
    """What docs/cluster.md gives to spark-submit for a job: options of Spark, and the job's own."""

    options: list[str]
    arguments: list[str]


def page_command(job: str, names: Mapping[str, str]) -> PageCommand:
    """Return the page's command without master, cores and packages; `names` are put for its own."""
    (line,) = re.findall(rf"^spark-submit (.*? pipelines/{job}\.py .*)$", _lines(), re.MULTILINE)
    for name, value in re.findall(r"^([A-Z]+)=(\S+)$", _lines(), re.MULTILINE):
        line = line.replace(f"${name}", value)
    for name, value in names.items():
        assert name in line, f"{name} is not in the page's command: {line}"
        line = line.replace(name, value)
    words = shlex.split(line)
    at = next(i for i, word in enumerate(words) if word.endswith(f"pipelines/{job}.py"))
    ours = {"--master", "--total-executor-cores", "--packages"}
    options = [
        part
        for option, value in zip(words[:at:2], words[1:at:2], strict=True)
        if option not in ours
        for part in (option, value)
    ]
    return PageCommand(options, words[at + 1 :])


def _lines() -> str:
    return re.sub(r"\\\n +", "", PAGE)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster, with all it writes below a folder."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
