"""What is left of what Spark says about a query that failed."""

from __future__ import annotations

import pytest

from resolver.errors import ResolverError
from resolver.spark.failure import query_failed, sent_whole

PLAN = """
=== Streaming Query ===
Identifier: [id = b5220f47, runId = ac7150f4]
Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink, b5220f47, Append
"""


def test_the_plan_is_left_out() -> None:
    said = "org.apache.kafka.common.errors.TimeoutException: Timed out. Call: listNodes" + PLAN
    assert str(query_failed("land", Exception(said), "/home/logs/spark.log")) == (
        "the query land ended: org.apache.kafka.common.errors.TimeoutException: Timed out. "
        "Call: listNodes; see /home/logs/spark.log"
    )


def test_of_tracebacks_what_the_innermost_raised_is_left() -> None:
    said = f"""An exception was raised by the Python Proxy. Return Message: Traceback (most recent \
call last):
  File "readwriter.py", line 1835, in save
    self._jwrite.save(path)
PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "processor.py", line 20, in decide
    raise KeyError("state")
          ^^^^^^^^^^^^^^^^^
KeyError: 'state'
{PLAN}"""
    assert str(query_failed("resolve", Exception(said))) == (
        "the query resolve ended: KeyError: 'state'; see Spark's log"
    )


def test_java_frames_are_left_out() -> None:
    said = """Traceback (most recent call last):
  File "protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o215.save.
: org.apache.spark.sql.delta.DeltaIOException: Cannot create file:/tables/_delta_log
\tat org.apache.spark.sql.delta.DeltaErrorsBase.cannotCreateLogPath(DeltaErrors.scala:1)
"""
    assert str(query_failed("land", Exception(said))) == (
        "the query land ended: py4j.protocol.Py4JJavaError: An error occurred while calling "
        "o215.save. : org.apache.spark.sql.delta.DeltaIOException: Cannot create "
        "file:/tables/_delta_log; see Spark's log"
    )


@pytest.mark.parametrize(
    "said",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_where_memory_is_too_small_the_remedy_is_not_to_rebuild(said: str) -> None:
    told = str(query_failed("resolve", Exception(said), remedy="start with --rebuild"))
    assert "set more spark.driver.memory" in told
    assert "--rebuild" not in told


def test_where_no_worker_started_the_remedy_is_to_start_again() -> None:
    said = "org.apache.spark.SparkException: Python worker failed to connect back."
    told = str(query_failed("resolve", Exception(said), remedy="start with --rebuild"))
    assert "Start again; nothing is damaged" in told
    assert "--rebuild" not in told


@pytest.mark.parametrize(
    "around", ["{}", "PythonException: in a worker\n{} SQLSTATE: 38000\n" + PLAN]
)
def test_an_error_of_our_own_code_keeps_its_remedy(around: str) -> None:
    with pytest.raises(RuntimeError) as raised, sent_whole():
        raise ResolverError('tx.half-0 has lost "records"', remedy="start with --rebuild")
    told = query_failed("resolve", Exception(around.format(raised.value)), remedy="wait")
    assert told.message == 'the query resolve ended: tx.half-0 has lost "records"'
    assert told.remedy == "start with --rebuild"


def test_an_error_of_our_own_code_without_a_remedy_names_the_log() -> None:
    with pytest.raises(RuntimeError) as raised, sent_whole():
        raise ResolverError("the commit 5 is gone")
    told = query_failed("land", raised.value, remedy="wait")
    assert str(told) == "the query land ended: the commit 5 is gone; see Spark's log"


def test_much_text_is_cut() -> None:
    said = "\n".join(f"{number}" * 400 for number in range(9))
    told = str(query_failed("land", Exception(said)))
    assert len(told) < 700
    assert told.endswith("...; see Spark's log")
