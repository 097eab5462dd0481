"""`foreachBatch` calls `HandOver` with a lazy batch: fetching its rows makes the workers decide.

The driver's threads hear of the batch when it is delivered.

Next station: `delivery/delivery.py` writes the decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import DataFrame

from ..errors import TxResolverError
from ..spark.points import Point
from .delivery import Delivery
from .fences import FenceTimer
from .figures import QueueFigures
from .reports import Reports
from .revoker import Revoker
from .stuck import StuckWatch

logger = logging.getLogger(__name__)


class HandOver:
    """Delivers each batch; then passes wake-up times, fences, revocations and figures on."""

    def __init__(
        self,
        delivery: Delivery,
        fence_timer: FenceTimer,
        revoker: Revoker,
        stuck_watch: StuckWatch,
        reports: Reports,
        failed: Callable[[TxResolverError], None],
    ) -> None:
        self._delivery = delivery
        self._fence_timer = fence_timer
        self._revoker = revoker
        self._stuck_watch = stuck_watch
        self._reports = reports
        self._failed = failed

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        logger.debug("batch %d: %s", batch_id, Point.DECIDING)
        rows = batch.toArrow().to_pylist()  # meanwhile the workers decide
        logger.debug("batch %d: %s", batch_id, Point.DECIDED)
        # Spark returns them in any order. The batch's digest needs the same order in each replay.
        rows.sort(key=lambda row: (row["queue"], row["part"]))
        packed_figures = (row["figures"] for row in rows)
        figures = [QueueFigures.unpack(packed) for packed in packed_figures if packed is not None]
        has_fast = any(queue_figures.has_fast for queue_figures in figures)
        try:
            self._delivery.deliver(batch_id, [row["decisions"] for row in rows], has_fast)
        except TxResolverError as error:
            self._failed(error)
            raise
        for row in rows:
            due, ops = row["wake_at_ms"], row["fence_ops"]
            self._fence_timer.set(
                row["queue"], due if due >= 0 else None, ops if ops >= 0 else None
            )
        self._revoker.want({row["queue"]: row["revoke"] for row in rows if row["part"] == 0})
        if has_fast:
            self._stuck_watch.see_fast()
        self._reports.take(figures)
        for queue_figures in figures:
            self._delivery.activity.pending(queue_figures.queue, queue_figures.pending)
        logger.debug("batch %d: %s, for Spark to note in its commit log", batch_id, Point.DONE)
