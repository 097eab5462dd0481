"""The resolving job on the driver: the query `resolve`, its delivery and its threads.

The job makes the query, delivery and the threads; no record passes through it. `source.py` plans,
and `query.py` has the workers decide. `hand_over.py` gives the decisions to `delivery/delivery.py`,
which writes them.
"""

from __future__ import annotations

import threading
from typing import NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import Replaced, ResolverError, TxResolverError
from ..kafka.clients import admin_client
from ..kafka.topic_admin import identify_topics
from ..protocol import Names
from ..settings import Settings
from ..spark.failure import query_failed
from ..spark.running import finish_batch, has_run
from .checkpoint import Checkpoint
from .delivery import Delivery, Marked
from .fences import FenceTimer
from .figures import QueueFigures
from .hand_over import HandOver
from .planned_settings import step_settings
from .query import start_query
from .rebuild import ensure_all_topics, outcomes, rebuild_ends, refuse_gaps
from .reports import Reports
from .revocation_reports import Revoked
from .revoker import Revoker
from .stuck import StuckWatch

#: Seconds in which Kafka has to tell whether another resolver has taken over.
_MARKER_SECONDS = 30.0


class Resolve:
    """The running job: the query, and beside it on the driver its delivery and threads."""

    def __init__(
        self, spark: SparkSession, settings: Settings, checkpoint: str, log: str = "Spark's log"
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._log = log
        self._checkpoint = Checkpoint(spark, checkpoint)
        self._delivery = Delivery(settings, self._checkpoint.identity())
        self._fence_secret = self._checkpoint.fence_secret()
        self._fence_timer = FenceTimer(settings, self._delivery, self._fence_secret, self._fail)
        self._revoker = Revoker(settings, self._fence_secret, self._fail)
        self._stuck_watch = StuckWatch(settings, self._revoker, self._fail)
        self._reports = Reports()
        self._hand_over = HandOver(
            self._delivery,
            self._fence_timer,
            self._revoker,
            self._stuck_watch,
            self._reports,
            self._fail,
        )
        self._failed = threading.Event()
        self._error: TxResolverError | None = None
        self._query: StreamingQuery | None = None
        self._rebuilding = False
        self._has_run = False
        self._stopped = False

    def start(self, rebuild: bool = False) -> None:
        """Make or verify the topics, take them over, start the query.

        With `rebuild` the checkpoint must be new. Transactions with an outcome are taken as
        settled. All others are resolved from the beginning of the topics.
        """
        ensure_all_topics(self._settings)
        if rebuild:
            refuse_gaps(self._settings)
            self._checkpoint.begin_rebuild()
        names = Names(self._settings.topic_prefix)
        ids = identify_topics(admin_client(self._settings), [names.half, names.op])
        self._checkpoint.keep_topics(ids, self._settings.queues)
        # A rebuild that has begun starts from the outcomes of that time. So it may not take over
        # the marker of another checkpoint, whose batches were delivered since.
        is_begun = self._checkpoint.rebuild_ends() is not None
        self._delivery.start(
            self._checkpoint.is_new(),
            rebuild and not is_begun,
            last_planned=lambda: self._checkpoint.next_batch() - 1,
        )
        for queue in range(self._settings.queues):
            self._fence_timer.set(queue, 0)  # a fence is due at once: it makes the first batch
        self._fence_timer.start()
        self._revoker.start()
        self._stuck_watch.start()
        if self._delivery.has_fast:
            self._stuck_watch.see_fast()
        self._rebuilding = self._checkpoint.is_rebuild() and self._checkpoint.is_new()
        self._query = self._start_query(self._outcomes() if self._rebuilding else None)

    @property
    def query(self) -> StreamingQuery:
        """The streaming query, once started."""
        if self._query is None:
            raise RuntimeError("the job has not been started")
        return self._query

    def has_run(self) -> bool:
        """Whether a batch has been committed since the start."""
        self._has_run = self._has_run or has_run(self.query)
        return self._has_run

    def figures(self) -> list[QueueFigures]:
        """Return the figures of each queue after its last batch since the start."""
        return self._reports.last()

    def revoked(self) -> Revoked:
        """Return what was revoked since the start, and what waits for it."""
        return self._revoker.revoked()

    def marked(self) -> Marked:
        """Return the batch that the marker names, and when it was written."""
        return self._delivery.marked()

    def raise_failure(self) -> None:
        """Raise the error that ended the job, if any."""
        if self._error is not None:
            raise self._error
        failure = self.query.exception()
        if failure is None:
            return
        # A resolver that took over with this checkpoint writes Spark's logs too. The query may
        # fail because of that before this resolver looks at the marker.
        if self._delivery.replaced(_MARKER_SECONDS):
            raise Replaced(f"another resolver took over {self._settings.topic_prefix}*")
        raise self._query_failed(failure) from failure

    def raise_failure_or_unexpected_stop(self) -> NoReturn:
        """Raise the failure that ended the job, or say that somebody else has stopped the query."""
        self.raise_failure()
        raise ResolverError("the query resolve was stopped from elsewhere", remedy="start again")

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the job's end; return whether it has ended.

        Each call logs the reports that are due.
        """
        self._reports.log()
        ended = self._failed.wait(seconds) or not self.query.isActive
        if self._rebuilding and not ended and not self._checkpoint.is_new():
            self._go_on_without_outcomes()
        return ended

    def stop(self, timeout_seconds: float) -> None:
        """Stop, once; a running batch may finish within the time-out."""
        if self._stopped:
            return
        self._stopped = True
        # Without this timer, a batch that Kafka does not take is retried for longer than a stop
        # may last.
        give_up = threading.Timer(timeout_seconds, self._delivery.give_up)
        give_up.start()
        try:
            if self._query is not None:
                finish_batch(self._query, timeout_seconds)
        finally:  # also if Spark's JVM is gone
            give_up.cancel()
            self._delivery.give_up()
            self._stuck_watch.stop()
            self._revoker.stop()
            self._fence_timer.stop()
            self._delivery.close()
            self._reports.end()

    def _outcomes(self) -> DataFrame:
        """Return the outcomes that a rebuild's first batch starts from: the same at each start."""
        ends = self._checkpoint.rebuild_ends()
        if ends is None:
            ends = rebuild_ends(self._settings)
            self._checkpoint.keep_rebuild_ends(ends)
        return outcomes(self._spark, self._settings, ends)

    def _go_on_without_outcomes(self) -> None:
        """Start the query again: its first batch is committed, and needs no outcomes any more.

        With them, Spark would read the outcomes again.
        """
        self.query.stop()
        self._query = self._start_query()
        self._rebuilding, self._has_run = False, True

    def _start_query(self, settled: DataFrame | None = None) -> StreamingQuery:
        planned = self._checkpoint.extend_planned_settings(step_settings(self._settings))
        try:
            return start_query(
                self._spark,
                self._settings,
                self._checkpoint,
                planned,
                self._fence_secret,
                self._hand_over,
                settled,
            )
        except (PySparkException, Py4JJavaError) as failure:  # such as damaged checkpoint files
            raise self._query_failed(failure) from failure

    def _query_failed(self, failure: Exception) -> TxResolverError:
        remedy = (
            f"If it does so again, files of its checkpoint {self._checkpoint.path} may be damaged: "
            "start with --rebuild, on a new checkpoint; nothing is lost or delivered twice"
        )
        return query_failed("resolve", failure, self._log, remedy)

    def _fail(self, error: TxResolverError) -> None:
        self._error = error
        self._failed.set()
