"""A standalone Spark cluster as processes, and spark-submit to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from resolver.broker import spark_jars

from .process import Process

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
        master = self._daemon("master", "master.Master")
        self.master = master.until_said(r"Starting Spark master at (spark://\S+)")[1]
        # More cores than the machine may have, for two jobs with two tasks each.
        share = ["--cores", "4", "--memory", "2g", "--work-dir", str(self.folder / "work")]
        worker = self._daemon("worker", "worker.Worker", *share, self.master)
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

    def _daemon(self, name: str, main: str, *arguments: str) -> Process:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        return self._run(name, [*command, *place, *arguments], {"SPARK_DAEMON_MEMORY": "256m"})

    def _run(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> Process:
        ours = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
        }
        process = Process(name, command, self.folder, {**ours, **environment})
        self._running.callback(process.stop)
        return process


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster, with all it writes below a folder."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
