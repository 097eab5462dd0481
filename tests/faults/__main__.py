"""`scripts/faults`: a campaign of faults against the running system."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from resolver.broker.locks import FileLock
from resolver.errors import TxResolverError

from .campaign import Campaign, see_possible
from .fault_error import FaultError
from .ordered import KILLS, ordered
from .plan import CHOICES, counts
from .report import summary, write
from .results import Results
from .soak import soak
from .stopping import Interrupted

_HOME = Path(".txresolver/faults")
_DYING_SECONDS = 60.0
_SEED = 1
_RATE = 50.0
_OF_FILES = (FileNotFoundError, FileExistsError, NotADirectoryError, PermissionError)
_INTERRUPTED = 130
_MOST = 1_000_000


def main() -> int:
    """Run a campaign, or go on with one; the exit code is 1 if anything was not as it must be."""
    options = _arguments()
    home = options.home.resolve()
    results = Results(home / "results.jsonl")
    try:
        if options.report:
            write(results, options.report)
            return 0
        with FileLock(home / "lock") as lock:
            if not lock.acquire_after(_DYING_SECONDS):
                raise FaultError(f"process {lock.owner()} runs a campaign in {home}")
            _log_to(home / "campaign.log")
            if options.soak is not None:
                print(soak(home, options.soak, options.rate, options.seed, lock.fileno()))
                return 0
            if options.ordered is not None:
                order = (options.ordered, options.kills, options.rate, options.seed)
                print(ordered(home, *order, lock.fileno()))
                return 0
            begun_with = results.campaign() if options.resume else _campaign(options)
            see_possible(home, begun_with["counts"])
            if not options.resume:
                results.begin(begun_with)
            campaign = Campaign(home, results)
            campaign.begin_again(options.again)
            campaign.run(lock.fileno())
    except Interrupted:
        is_campaign = options.soak is None and options.ordered is None
        how = "; go on with --resume" if is_campaign else ""
        print(f"Interrupted: everything is stopped{how}.", file=sys.stderr)
        return _INTERRUPTED
    except TxResolverError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except (FaultError, *_OF_FILES) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(summary(results))
    return 0 if results.hold else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/faults", description=__doc__, usage="scripts/faults [OPTION...]"
    )
    parser.add_argument(
        "--rounds", type=_count, help="about this many: each fault gets its share, at least 1"
    )
    parser.add_argument("--seed", type=int, help=f"the same seed, the same campaign ({_SEED})")
    parser.add_argument("--resume", action="store_true", help="go on where one was interrupted")
    parser.add_argument(
        "--again",
        action="append",
        metavar="WORLD",
        default=[],
        help="with --resume: play a world once more from its beginning, as after a change",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=CHOICES,
        metavar="FAULT",
        default=[],
        help="this fault, or this group of faults; repeatable",
    )
    parser.add_argument("--rate", type=_positive, help=f"transactions a second ({_RATE})")
    parser.add_argument("--home", type=Path, default=_HOME, help="the folder of all its data")
    parser.add_argument("--soak", type=_positive, metavar="MINUTES", help="one world, for so long")
    parser.add_argument(
        "--ordered", type=_count, metavar="COMMITS", help="one world, for the order of its keys"
    )
    parser.add_argument(
        "--kills",
        type=_count,
        default=KILLS,
        help=f"with --ordered: kills of the resolver ({KILLS})",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the results there")
    options = parser.parse_args()
    chosen = (options.rounds, options.only, options.seed, options.rate)
    if options.resume and chosen != (None, [], None, None):
        parser.error("--resume goes on as it was begun: without --rounds, --only, --seed, --rate")
    if options.again and not options.resume:
        parser.error("--again goes with --resume")
    if options.soak is not None and (options.resume or options.rounds is not None or options.only):
        parser.error("--soak is no campaign: without --resume, --rounds, --only")
    if options.ordered is not None and (
        options.resume or options.rounds is not None or options.only
    ):
        parser.error("--ordered is no campaign: without --resume, --rounds, --only")
    if options.soak is not None and options.report:
        parser.error("--report writes down what a campaign has done: without --soak")
    options.seed = _SEED if options.seed is None else options.seed
    options.rate = _RATE if options.rate is None else options.rate
    return options


def _count(written: str) -> int:
    if not (written.isdecimal() and 1 <= int(written) <= _MOST):
        raise argparse.ArgumentTypeError(f"{written} is no number from 1 to {_MOST:,}")
    return int(written)


def _positive(written: str) -> float:
    try:
        number = float(written)
    except ValueError:
        number = 0.0
    if not 0 < number <= _MOST:
        raise argparse.ArgumentTypeError(f"{written} is no number above 0, up to {_MOST:,}")
    return number


def _campaign(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a campaign is begun with."""
    asked = counts(options.rounds, options.only)
    return {"seed": options.seed, "counts": asked, "rate": options.rate}


def _log_to(file: Path) -> None:
    """Keep all loggers, librdkafka's among them, from the terminal."""
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(filename=file, level=logging.INFO, format=form, force=True)


if __name__ == "__main__":
    sys.exit(main())
