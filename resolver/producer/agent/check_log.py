"""The agent's log of its checks: each failure by its transaction, and a count a minute."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from ...protocol import Check, TransactionStatus
from ...protocol.record import short
from ..reported_state import ReportedState

_log = logging.getLogger(__name__)

#: Seconds between two counts, and between two tracebacks of a kind: a database that is away fails
#: every check in the same way.
_INTERVAL_SECONDS = 60.0
#: Most kinds of failures that are remembered.
_MOST_KINDS = 100


class CheckLog:
    """Written to by the threads that ask; `tell` is called by the agent's own."""

    def __init__(self, group: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._group = group
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answers: Counter[str] = Counter()
        self._since = monotonic()
        self._traced: dict[tuple[str, type[BaseException]], float] = {}

    def failed(self, transaction_id: str, text: str, error: BaseException | None = None) -> None:
        """Warn of a check without a usable answer; with a traceback once a minute for its kind."""
        known = {"transaction_id": transaction_id, "group": self._group}
        if error is None:
            _log.warning("transaction %s: %s", short(transaction_id), text, extra=known)
            return
        is_traced = self._is_traced(text, type(error))
        why = short(f"{type(error).__name__}: {error}")
        _log.warning(
            "transaction %s: %s: %s",
            short(transaction_id), text, why, exc_info=error if is_traced else None, extra=known,
        )  # fmt: skip

    def answered(self, state: TransactionStatus) -> None:
        """Count an answer."""
        with self._lock:
            self._answers[state.value] += 1

    def ends(self, check: Check, answer: ReportedState) -> None:
        """Log an answer that is sent, unless it is a commit."""
        if answer.state is not TransactionStatus.COMMIT_MESSAGE:
            why = f" ({answer.remark})" if answer.remark else ""
            _log.info(
                "check %d of transaction %s of group %s, half %s, is answered %s%s",
                check.times, short(check.half.transaction_id), check.half.group, check.half_id,
                answer.state.value, why,
                extra={
                    "transaction_id": check.half.transaction_id,
                    "group": check.half.group,
                    "half": str(check.half_id),
                },
            )  # fmt: skip

    def tell(self) -> None:
        """Say once a minute what was answered, unless it was nothing."""
        now = self._monotonic()
        with self._lock:
            if now - self._since < _INTERVAL_SECONDS:
                return
            answers, self._answers, self._since = self._answers, Counter(), now
        if answers:
            states = ", ".join(f"{count:,} {state}" for state, count in sorted(answers.items()))
            _log.info(
                "group %s, last minute: %d checks asked: %s", self._group, answers.total(), states
            )

    def _is_traced(self, text: str, kind: type[BaseException]) -> bool:
        now = self._monotonic()
        with self._lock:
            last = self._traced.get((text, kind))
            if last is not None and now - last < _INTERVAL_SECONDS:
                return False
            if len(self._traced) >= _MOST_KINDS:
                self._traced.clear()
            self._traced[text, kind] = now
            return True
