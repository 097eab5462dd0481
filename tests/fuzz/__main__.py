"""`python -m tests.fuzz`: the big form of the fuzz, which scripts/fuzz runs."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from resolver.broker import Broker
from resolver.up.home import Home
from tests.support.commands import command
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import World

from .pure import fuzz
from .system import SETTINGS, System

QUEUES = 4
#: Records of one queue of the first part, which keeps its state in between.
QUEUE_RECORDS = 20_000
#: Least number of records: so each kind of record comes to each queue, of the system too.
FEWEST = 1_000


def main() -> int:
    """Run both parts; returns 1 where something was not as it must be."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz")
    parser.add_argument("--records", type=_records, default=1_000_000, metavar="N")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))  # noqa: S311
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    begun = time.monotonic()
    for sent, checks in to_the_step(options.records, options.seed):
        _show(f"decoding and the step: {sent} records, {checks} checks", begun)
    print("\neach refused element once, each half that was ended ended so, bit for bit", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        differences = through_the_system(options.records // 10, options.seed, Path(folder))
    print("\n".join(differences[:50]) or "nothing differs")
    return 1 if differences else 0


def _records(written: str) -> int:
    if not (written.isdecimal() and int(written) >= FEWEST):
        raise argparse.ArgumentTypeError(f"{written} is no number from {FEWEST:,} on")
    return int(written)


def to_the_step(records: int, seed: int) -> Iterator[tuple[int, int]]:
    """Send to one queue after the other, on all cores; yields how many, and checks, so far."""
    checks = 0
    queues = range(-(-records // QUEUE_RECORDS))
    count = min(records, QUEUE_RECORDS)
    with ProcessPoolExecutor() as pool:
        # Each has a seed of its own, which repeats it: tests.fuzz.pure.fuzz(count, seed).
        running = [pool.submit(fuzz, count, seed + number) for number in queues]
        for number, done in enumerate(running):
            try:
                checks += done.result()
            except Exception as error:
                pool.shutdown(cancel_futures=True)
                raise SystemExit(f"seed {seed + number}, {count} records: {error!r}") from error
            yield (number + 1) * count, checks


def through_the_system(records: int, seed: int, folder: Path) -> list[str]:
    """Run `txresolver up` on a broker, and send to it; return what is not as it must be."""
    begun = time.monotonic()
    home = folder / "home"
    with Broker(folder / "broker") as broker:
        world = World(broker.bootstrap, "tx.")
        sets = [f"--set={name}={value}" for name, value in {**SETTINGS, "queues": QUEUES}.items()]
        where = [f"--bootstrap-servers={world.bootstrap}", *sets]
        arguments = [f"--home={home}", *where]
        with command("up", *arguments, log=folder / "up.log") as running:
            running.until_said("ready:")
            system = System(world, QUEUES, seed)
            for sent in system.send(records):
                _show(f"through the system: {sent} records", begun)
            differences = system.await_refusals()
            _show(f"through the system: {system.summary()}", begun)
            print(flush=True)
            running.signal(signal.SIGTERM)
            if running.exit_code() != 0:
                differences.append(f"the resolver ended with {running.process.returncode}")
        differences += _landed(home, where, folder / "land.log")
        differences += _audited(arguments, folder / "audit.log")
        world.close()
    return differences + system.wrong_tables(home / "tables")


def _landed(home: Path, where: list[str], log: Path) -> list[str]:
    """Land the rest: the resolver ends in a limited time, and leaves it to its next start."""
    paths = Home(home)
    folders = [f"--tables={paths.tables}", f"--checkpoint={paths.land_checkpoint}"]
    landing = [sys.executable, "-m", "pipelines.land", "--available-now", *folders, *where]
    with log.open("wb") as output:
        ended = subprocess.run(
            landing, stdout=output, stderr=output, timeout=PATIENCE_SECONDS, check=False
        )
    status = ended.returncode
    return [f"land ended with {status}: {log.read_text(errors='replace')}"] if status else []


def _audited(arguments: list[str], log: Path) -> list[str]:
    """Return what the audit finds, which has rules of its own for what is refused and what ends."""
    with command("audit", "--topics", *arguments, log=log) as auditing:
        return [] if auditing.exit_code() == 0 else [auditing.output()]


def _show(text: str, begun: float) -> None:
    end = "" if sys.stdout.isatty() else "\n"
    start = "\r" if sys.stdout.isatty() else ""
    print(f"{start}{text}, {time.monotonic() - begun:.0f} s", end=end, flush=True)


if __name__ == "__main__":
    sys.exit(main())
