"""The questions to a large ledger: time and memory of each command, cold once and then warm.

A question is a process of its own, as a user starts it. Cold means that the kernel has dropped the
tables' files from its cache.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from resolver.errors import ResolverError
from resolver.views import HalfId, Ledger

from .big_ledger import make_ledger
from .results import CaseFigures, Figures
from .setup import Setup

_TRANSACTIONS = 10_000_000
_MEGABYTE = 1 << 10  # of the kernel's kilobytes


def ledger_cost(setup: Setup, transactions: int = _TRANSACTIONS) -> Iterator[CaseFigures]:
    """Make a ledger, then ask."""
    home = setup.folder()
    make_ledger(home / "tables", transactions)
    yield from questions(home, transactions)


def questions(home: Path, transactions: int) -> Iterator[CaseFigures]:
    """Ask each question cold, then warm; `--at` asks for the present as a moment of the past."""
    for name, arguments in _questions(home, transactions).items():
        _drop_from_cache(home)
        for how in ("cold", "warm"):
            yield f"{transactions:,}, {name}, {how}", _asked(home, arguments)


def _questions(home: Path, transactions: int) -> dict[str, list[str]]:
    # One from the middle, in a hundred of its own: what became of each is known.
    middle = HalfId(0, transactions // 8)
    (named,) = Ledger(home).body(middle).to_pylist()
    moment = ["--at", "0s"]
    return {
        "status": ["status"],
        "status --at": ["status", *moment],
        "show": ["show", str(named["transaction_id"])],
        "why": ["why", str(named["transaction_id"])],
        "why --at": ["why", str(named["transaction_id"]), *moment],
        "list --pending": ["list", "--pending"],
        "list --pending --at": ["list", "--pending", *moment],
        "failures": ["failures"],
    }


def _asked(home: Path, arguments: list[str]) -> Figures:
    command = [sys.executable, "-m", "resolver", *arguments, "--home", str(home)]
    began = time.monotonic()
    silent = os.open(os.devnull, os.O_WRONLY)
    process = os.posix_spawn(
        sys.executable, command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, silent, 1)]
    )
    os.close(silent)
    _, status, used = os.wait4(process, 0)
    if status:
        raise ResolverError(f"{' '.join(arguments)} failed: see above")
    return {
        "seconds": time.monotonic() - began,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / _MEGABYTE,
    }


def _drop_from_cache(home: Path) -> None:
    for file in home.rglob("*"):
        if file.is_file():
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    for case, figures in questions(Path(sys.argv[1]), int(sys.argv[2])):
        print(case, {name: round(figure, 2) for name, figure in figures.items()}, flush=True)
