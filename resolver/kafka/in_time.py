"""An end to the wait for a client's call that may never come back, whatever its own limit.

A call may hang so after a broker's restart. The cause is librdkafka's issue 5456.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException


def in_time(call: Callable[[], None], seconds: float, name: str, failure: str) -> None:
    """Make a call in a thread of this `name`; wait a second longer than its own limit, `seconds`.

    Raises what the call raises. Raises `KafkaException`, which begins with `failure`, if the call
    does not come back: its thread is left behind.
    """
    done: Future[None] = Future()

    def run() -> None:
        try:
            call()
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        done.result(seconds + 1)
    except FutureTimeout:
        said = f"{failure} within {seconds:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said)) from None
