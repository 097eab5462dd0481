from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from resolver.broker import kafka_classpath, spark_jars
from resolver.broker.jars import cache_folder
from resolver.errors import BrokerError
from tests.support.patience import PATIENCE_SECONDS

FETCH = "from resolver.broker import spark_jars; print(*spark_jars(), sep='\\n')"


def test_no_jar_comes_twice_and_kafka_has_its_own_client() -> None:
    names = {jar.name for jar in kafka_classpath()}
    assert {"kafka_2.13-4.3.1.jar", "kafka-clients-4.3.1.jar"} <= names
    assert len([name for name in names if name.startswith("log4j-slf4j")]) == 1


def test_sparks_jars_hold_nothing_that_pyspark_brings() -> None:
    own = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    names = {jar.name for jar in spark_jars()}
    assert not names & own
    assert {"spark-sql-kafka-0-10_2.13-4.2.0.jar", "delta-spark_4.2_2.13-4.4.0.jar"} <= names
    assert not [name for name in names if name.startswith(("hadoop", "scala-library", "log4j"))]


def test_the_cache_can_be_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TXRESOLVER_JAR_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


def test_two_that_fill_one_empty_cache_at_once_get_the_same_whole_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TXRESOLVER_JAR_CACHE", str(tmp_path))
    both = [
        subprocess.Popen(
            [sys.executable, "-c", FETCH],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=PATIENCE_SECONDS) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert said[0][0] == said[1][0]
    assert len(said[0][0].splitlines()) == len(spark_jars())
    assert sum("resolving" in errors for _, errors in said) == 1


def test_jars_that_cannot_be_had_are_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No jar is cached anywhere, and jgo may not ask anyone.
    for variable in ("TXRESOLVER_JAR_CACHE", "M2_REPO", "JGO_CACHE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setenv("JGO_OFFLINE", "1")
    with pytest.raises(BrokerError, match=r"(?s)could not resolve org\.apache\.kafka.*copy the"):
        kafka_classpath()
    assert not list((tmp_path / "TXRESOLVER_JAR_CACHE").glob("kafka*"))
