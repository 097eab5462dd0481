"""The Spark session of both jobs, on one machine and under spark-submit."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from py4j.java_gateway import JavaClass
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ..broker import spark_jars
from ..errors import SettingsError
from ..settings import Settings
from .class_archive import FOLDER, archive_options

#: Options that the queries need, wherever they run; `Settings` refuses other values in [spark].
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Switch off counting: to count a state store's keys makes each put four times dearer.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # Switch off both: each may change how the same batch is cut when it is replayed.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    # Take the last value of a field that an op has twice, as the protocol says.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Run no batch of an idle query: a fence wakes it when a check is due.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Give each query a pool: a slow batch of land must not hold up a fast one of resolve.
    "spark.scheduler.mode": "FAIR",
}

#: Options that an operator may change, in [spark] or with spark-submit's --conf.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Set no limit: a batch's decisions come to the driver as a whole. Above Spark's default of 1 GB
    # the query would fail, and again each time that the batch is replayed.
    "spark.driver.maxResultSize": "0",
    # Lower Delta's own default: 50 costs a small machine more than the commit does.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Note for no column which line of Python made it: these notes are half of all calls of the JVM
    # while a query is built.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Generate no code: to generate and compile it for each batch takes longer than it saves.
    "spark.sql.codegen.wholeStage": "false",
}

#: The JVM's second compiler starts at ten times its usual counts of calls and loops. At the usual
#: counts it takes more of two cores during a start than all else in the JVM.
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

#: Its first compiler alone, for a job that ends before what the second compiles is used.
FIRST_COMPILER = ("-XX:TieredStopAtLevel=1",)

#: Classes that PySpark asks the JVM for with each column that a query is built of.
_OF_COLUMNS = ("PythonSQLUtils", "PythonUtils", "functions", "org.apache.spark.sql.functions")

#: Master for one machine: all cores, and a task may fail three times. By itself Spark tries no task
#: again here, and fails the query for a Python worker that a busy machine started too late.
_MASTER = "local[*,4]"


def spark_session(
    settings: Settings,
    app_name: str,
    master: str | None = None,
    home: Path | None = None,
    is_short: bool = False,
) -> SparkSession:
    """Return the session: spark-submit's own, else a new one on `master` (default `local[*,4]`).

    Spark's own files (spilled blocks, local state, a warehouse) go under `home`/spark if a home is
    given. `is_short` is for a job of some ten seconds. [spark] wins over spark-submit's --conf.
    Raises `SettingsError` where Spark's JVM does not start.
    """
    submitted = under_spark_submit()
    python = sys.executable if submitted or home is None else _python(home)
    # Set the variable: the worker that prepares a stateful processor on the driver reads no option.
    if not submitted or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.appName(app_name)
    if not submitted:
        builder = builder.master(master or _MASTER)
    for key, value in _conf(settings, home, submitted, python, is_short).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SettingsError(
            "Spark's JVM does not start; its last words are in logs/spark.log of the home, or in "
            "logs/libraries.log for an audit",
            remedy="look at spark.driver.memory and spark.driver.extraJavaOptions of [spark], "
            f"and at JAVA_HOME; the archive of its classes, in {FOLDER}, may be deleted",
        ) from error
    _say_nothing_of_broken_reports(spark)
    _look_up_once(spark)
    if not submitted:
        _write_no_checksums(spark)
    if spark.conf.get("spark.submit.pyFiles", ""):
        _show_packages_to_workers_here(spark)
    return spark


@contextmanager
def sql_options(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Let queries that start in the block run with these options; the session keeps its own."""
    own = {name: str(spark.conf.get(name)) for name in options}
    for name, value in options.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in own.items():
            spark.conf.set(name, value)


def _say_nothing_of_broken_reports(spark: SparkSession) -> None:
    """Silence the accumulator server when the JVM dies; the caller reports the failure."""
    cast(Any, spark.sparkContext)._accumulatorServer.handle_error = lambda *_: None


def _look_up_once(spark: SparkSession) -> None:
    """Keep the classes that PySpark asks for again and again.

    The JVM looks for a short name in all jars, once for each package that PySpark has imported.
    """
    view = cast(Any, spark._jvm)
    for name in _OF_COLUMNS:
        java_class = getattr(view, name)
        if isinstance(java_class, JavaClass):
            setattr(view, name, java_class)


def _write_no_checksums(spark: SparkSession) -> None:
    """Let Hadoop write files on a local disk without a second file for their checksums.

    Hadoop forks a process for each file that it makes, and half of the files are for checksums. A
    torn file is noticed without them: Spark's logs, its state and Delta's log are refused unless
    they are whole.
    """
    context = cast(Any, spark.sparkContext)
    files = context._jvm.org.apache.hadoop.fs.FileSystem
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def under_spark_submit() -> bool:
    """Whether spark-submit started this process: its JVM is there already, with its jars."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _show_packages_to_workers_here(spark: SparkSession) -> None:
    """Let the worker that prepares a stateful processor on the driver import our packages too.

    Executors get --py-files. This worker does not, and would not find our packages.
    """
    environment = spark.sparkContext.environment
    paths = [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def _conf(
    settings: Settings, home: Path | None, submitted: bool, python: str, is_short: bool
) -> dict[str, str]:
    """Merge the options; the last wins: defaults, spark-submit's, [spark], required ones."""
    defaults = {**DEFAULTS, "spark.pyspark.python": python}
    if submitted:
        # Connect to the JVM first: only the JVM knows the options that spark-submit was given.
        SparkContext._ensure_initialized()
        submitted_conf = SparkConf()
        chosen = {key: value for key, value in defaults.items() if not submitted_conf.contains(key)}
    else:
        # Unpack in the home only if it may run programs: the JVM has to run its libraries.
        own = _own_folder(home) if home is not None and python != sys.executable else None
        chosen = {**defaults, **_before_the_jvm(own, is_short), **_of_home(home)}
    shuffles = {"spark.sql.shuffle.partitions": str(settings.queues)}
    return {**chosen, **settings.spark_conf, **REQUIRED, **shuffles}


def _before_the_jvm(own: Path | None, is_short: bool) -> dict[str, str]:
    """Return the options that the JVM needs at its start; it unpacks its libraries in folder `own`.

    A killed JVM leaves them behind; in a home the next start removes them.
    """
    logging = Path(__file__).with_name("log4j2.properties")
    compiler = FIRST_COMPILER if is_short else _COMPILER
    java = [f'"-Dlog4j2.configurationFile={logging}"', *compiler, *archive_options()]
    if own is not None:
        temporary = own / "tmp"
        temporary.mkdir(exist_ok=True)
        java.append(f'"-Djava.io.tmpdir={temporary}"')
    return {
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, spark_jars())),
        "spark.driver.defaultJavaOptions": " ".join(java),
        # Return the decisions of a large batch directly: they need no socket to this same process.
        "spark.task.maxDirectResultSize": "128m",
        # Stay on this machine: all is in one process, and no other machine has to reach it.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }


def _python(home: Path) -> str:
    """Return a program that is our Python, for Spark to start its workers with.

    Spark puts a zip of PySpark's sources before all else that its workers import. Each process
    would compile the sources again: eight of them, one after the other, before the first batch.
    """
    program = _own_folder(home) / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    path, python = shlex.quote(os.environ.get("PYTHONPATH", "")), shlex.quote(sys.executable)
    program.write_text(f'#!/bin/sh\nexport PYTHONPATH={path}\nexec {python} "$@"\n')
    program.chmod(0o755)
    runs = os.access(program, os.X_OK)  # not on a disk that is mounted with noexec
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
        # File manager for a local disk, which a home is on. It is as safe as the default (a new
        # file, then a rename) and several times as fast. The default forks a process for each look
        # at a file.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
    }
