"""The time limit of each test: a plugin beside pytest-timeout, for what that leaves open.

- A cut-off by a signal waits until Python runs again. Where it does not, the process ends.
- A failure stops the timer. So the end of a failed test's fixtures has the limit once more.
- A test that was cut off may leave processes. They are killed, and disturb no other test.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Timer
from typing import Any

import psutil
import pytest
from pytest_timeout import timeout_timer

from .patience import FACTOR, LIMIT_SECONDS

_Armed = tuple[Any, Timer]
_ARMED = pytest.StashKey[_Armed]()
#: Number of its limits after which the process of a test ends, and the run soon after it.
_BACKSTOP = 1.5


def takes(seconds: int, why: str) -> pytest.MarkDecorator:
    """Give a test a longer time limit than others; `why` says what takes so long."""
    assert why
    return pytest.mark.timeout(max(int(seconds * FACTOR), LIMIT_SECONDS))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a cut-off of a Hypothesis test end its process: it takes a failure for an example."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.timeout(LIMIT_SECONDS, method="thread"))


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Iterator[None]:
    _disarm(item)
    backstop = Timer(_BACKSTOP * settings.timeout, timeout_timer, (item, settings))
    backstop.daemon = True
    backstop.start()
    item.stash[_ARMED] = (settings, backstop)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> Iterator[None]:
    _disarm(item)
    return (yield)


def _disarm(item: pytest.Item) -> None:
    if armed := item.stash.get(_ARMED, None):
        armed[1].cancel()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    if armed := item.stash.get(_ARMED, None):
        # End the timer first: that of a Hypothesis test would be lost, and end the process later.
        item.ihook.pytest_timeout_cancel_timer(item=item)
        item.ihook.pytest_timeout_set_timer(item=item, settings=armed[0])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = _children()
    try:
        return (yield)
    except BaseException as failure:
        if _was_cut_off(failure):
            _kill(_children() - before)
        raise


def _was_cut_off(failure: BaseException | None) -> bool:
    """Whether a failure is a cut-off, or came while one unwound the test."""
    while failure is not None:
        if isinstance(failure, pytest.fail.Exception) and str(failure).startswith("Timeout"):
            return True
        failure = failure.__context__
    return False


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _kill(processes: set[psutil.Process]) -> None:
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=10)
