"""A local transaction in a process of its own, which SIGKILL ends before the commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ..errors import ContractBroken, ListenerError

_PATIENCE_SECONDS = 60.0
# A new process and no fork: a fork shares the parent's connections, which SIGKILL would not close.
_PROCESSES = get_context("spawn")


def check_sendable(run: Any) -> None:
    """Raise `ListenerError` unless another process can get the function."""
    try:
        ForkingPickler.dumps(run)
    except Exception as error:
        raise ListenerError(
            f"run is {run!r}, which can't be sent to another process ({error})",
            remedy="give a function of a module, or a functools.partial of one",
        ) from error


def run_and_kill(run: Callable[[str, Callable[[], None]], None], transaction_id: str) -> None:
    """Run a local transaction and kill its process at the last step before the commit."""
    process = _PROCESSES.Process(target=_run, args=(run, transaction_id), daemon=True)
    process.start()
    process.join(_PATIENCE_SECONDS)
    if process.exitcode == -signal.SIGKILL:
        return
    ended = f"ended with exit code {process.exitcode}; its error output says why"
    if process.exitcode is None:
        process.kill()
        ended = f"was not at its commit after {_PATIENCE_SECONDS:g} s; see what run waits for"
    raise ContractBroken(f"run in a process of its own {ended}")


def _run(run: Callable[[str, Callable[[], None]], None], transaction_id: str) -> None:
    run(transaction_id, lambda: os.kill(os.getpid(), signal.SIGKILL))
