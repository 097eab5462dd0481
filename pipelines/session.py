"""The Spark session of both jobs, on one machine and under spark-submit."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from resolver.errors import SettingsError
from resolver.settings import Settings

#: What the queries need, wherever they run; `Settings` refuses other values in [spark].
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting the keys of a state store makes each put four times dearer.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Both may change how the same batch is cut when it is replayed.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # As the protocol has it: of a field that is given twice in an op the last counts.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # An idle query runs no batch: a fence wakes it where a check is due.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # A slow batch of land must not hold up a fast one of resolve: each has its own pool.
    "spark.scheduler.mode": "FAIR",
}

#: What an operator may change, in [spark] or with spark-submit's --conf.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A batch's decisions come to the driver whole. Above 1 GB Spark would fail the query, and so it
    # would each time that the batch is replayed.
    "spark.driver.maxResultSize": "0",
    # 50, Delta's own default, costs a small machine more than the commit does.
    "spark.databricks.delta.snapshotPartitions": "2",
    # To generate and compile code for each batch takes longer than it saves.
    "spark.sql.codegen.wholeStage": "false",
}

#: All cores; a task may fail three times. On one machine Spark by itself tries none again, and
#: fails the query for a Python worker that a busy machine started too late.
_MASTER = "local[*,4]"


def spark_session(
    settings: Settings, app_name: str, master: str | None = None, home: Path | None = None
) -> SparkSession:
    """Return the session: spark-submit's own, else a new one on `master` (default `local[*,4]`).

    What Spark writes for itself (spilled blocks, local state, a warehouse) goes under
    `home`/spark if a home is given. [spark] wins over spark-submit's --conf. Raises `SettingsError`
    where its JVM does not start.
    """
    submitted = under_spark_submit()
    python = sys.executable if submitted or home is None else _python(home)
    # The worker that prepares a stateful processor on the driver knows only this, no option.
    if not submitted or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.appName(app_name)
    if not submitted:
        builder = builder.master(master or _MASTER)
    for key, value in _conf(settings, home, submitted, python).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        from pipelines.class_archive import FOLDER

        raise SettingsError(
            "Spark's JVM does not start; its last words are above, or in HOME/logs/spark.log. Look "
            "at spark.driver.memory and spark.driver.extraJavaOptions of [spark], and at "
            f"JAVA_HOME; the archive of its classes, in {FOLDER}, may be deleted"
        ) from error
    _say_nothing_of_broken_reports(spark)
    if not submitted:
        _write_no_checksums(spark)
    if spark.conf.get("spark.submit.pyFiles", ""):
        _show_packages_to_workers_here(spark)
    return spark


@contextmanager
def sql_options(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Let queries that are started inside run with these options; the session keeps its own."""
    own = {name: str(spark.conf.get(name)) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in own.items():
            spark.conf.set(name, value)


def _say_nothing_of_broken_reports(spark: SparkSession) -> None:
    """Let what hears the JVM's reports end with it, without a traceback: who asks the JVM tells."""
    cast(Any, spark.sparkContext)._accumulatorServer.handle_error = lambda *_: None


def _write_no_checksums(spark: SparkSession) -> None:
    """Let Hadoop write files on a local disk without a second one that has their checksums.

    It forks a process for each file that it makes, and this is half of them. What is torn is
    noticed without: Spark's logs, its state and Delta's log are refused unless they are whole.
    """
    context = cast(Any, spark.sparkContext)
    files = context._jvm.org.apache.hadoop.fs.FileSystem
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def under_spark_submit() -> bool:
    """Whether spark-submit started this process: its JVM is there already, with its jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _show_packages_to_workers_here(spark: SparkSession) -> None:
    """Let the worker that prepares a stateful processor on the driver import our packages too.

    Executors are given --py-files, that worker is not: it would not find them.
    """
    environment = spark.sparkContext.environment
    paths = [str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def _conf(settings: Settings, home: Path | None, submitted: bool, python: str) -> dict[str, str]:
    """Merge the options; the last wins: defaults, spark-submit's, [spark], required ones."""
    defaults = {**DEFAULTS, "spark.pyspark.python": python}
    if submitted:
        # Only the JVM knows what spark-submit was given, and Python is not yet connected to it.
        SparkContext._ensure_initialized()
        given = SparkConf()
        chosen = {key: value for key, value in defaults.items() if not given.contains(key)}
    else:
        # In a home that may run programs, as this one: what the JVM unpacks it has to run.
        own = _own_folder(home) if home is not None and python != sys.executable else None
        chosen = {**defaults, **_before_the_jvm(own), **_of_home(home)}
    shuffles = {"spark.sql.shuffle.partitions": str(settings.queues)}
    return {**chosen, **settings.spark_conf, **REQUIRED, **shuffles}


def _before_the_jvm(own: Path | None) -> dict[str, str]:
    """Return what has to be known when the JVM starts; it unpacks its libraries in folder `own`.

    One that is killed leaves them behind: in a home the next start removes them.
    """
    # Here, because spark-submit has a JVM and jars already, and needs no package that finds them.
    from pipelines.class_archive import archive_options
    from resolver.broker import spark_jars

    logging = Path(__file__).with_name("log4j2.properties")
    java = [f'"-Dlog4j2.configurationFile={logging}"', *archive_options()]
    if own is not None:
        temporary = own / "tmp"
        temporary.mkdir(exist_ok=True)
        java.append(f'"-Djava.io.tmpdir={temporary}"')
    return {
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, spark_jars())),
        "spark.driver.defaultJavaOptions": " ".join(java),
        # Decisions of a large batch needn't go over a socket to this same process.
        "spark.task.maxDirectResultSize": "128m",
        # All in one process: no other machine has to reach this one.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _python(home: Path) -> str:
    """Return a program that is our Python, for Spark to start its workers with.

    Spark puts a zip of PySpark's sources before all else that they import, and each process would
    compile them anew: eight of them, one after the other, before the first batch.
    """
    program = _own_folder(home) / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    path, python = shlex.quote(os.environ.get("PYTHONPATH", "")), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nexport PYTHONPATH={path}\nexec {python} "$@"\n')
    program.chmod(0o755)
    runs = os.access(program, os.X_OK)  # not where a disk is mounted so that nothing may
    return str(program) if runs else sys.executable


def _own_folder(home: Path) -> Path:
    return (home / "spark").resolve()


def _of_home(home: Path | None) -> dict[str, str]:
    if home is None:
        return {}
    own = _own_folder(home)
    return {
        "spark.local.dir": str(own / "local"),
        "spark.sql.warehouse.dir": str(own / "warehouse"),
        # On a local disk, as a home is, it is as safe as the default (a new file, then a rename)
        # and several times as fast: the default forks a process for each look at a file.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
    }
