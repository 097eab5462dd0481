"""Files that are torn, truncated, missing or old, as after a disk's failure or a bad restore.

The resolver must get over it, or refuse to start and say what to do; that is then done.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess

from resolver.errors import AuditError
from resolver.up.home import Home

from .audit import run_audit
from .fault import Done, Fault
from .fault_error import FaultError
from .kills import kill
from .remedy import follow
from .world import World

_SECONDS_BEHIND = (3.0, 8.0)

Find = Callable[[Home], list[Path]]
Spoil = Callable[[Path, random.Random], None]


def damaged(find: Find, *spoils: Spoil) -> Fault:
    """Return the fault of a resolver that was killed and finds one of these files spoilt."""

    def fault(world: World, chance: random.Random) -> Done:
        what, _ = _spoil(world, chance, find, spoils)
        refusals = world.start_following_refusals()
        return Done(what, " / ".join(refusals) or "recovered")

    return fault


def unreadable_rows(*spoils: Spoil) -> Fault:
    """Return the fault of a table whose rows can't be read.

    Land only adds rows, and need not notice. The audit reads them: it names the file and what to
    do. Then the table lands again.
    """

    def fault(world: World, chance: random.Random) -> Done:
        what, file = _spoil(world, chance, rows, spoils)
        refusal = _see_named(file, run_audit(world))
        follow(refusal, world.resolver_home)
        return Done(what, " / ".join([refusal, *world.start_following_refusals()]))

    return fault


def _spoil(
    world: World, chance: random.Random, find: Find, spoils: Sequence[Spoil]
) -> tuple[str, Path]:
    """Kill the resolver and spoil a file of its home; return what was done, and the file."""
    home = Home(world.resolver_home)
    world.until(lambda: find(home), "there is no such file yet")
    world.pause(chance.uniform(0, 3))
    kill(world)
    file, spoil = chance.choice(find(home)), chance.choice(spoils)
    spoil(file, chance)
    return f"{spoil.__name__} {file.relative_to(home.path)}", file


def _see_named(file: Path, audited: CompletedProcess[str]) -> str:
    error_line = audited.stderr.strip().rpartition("\n")[-1]  # what Spark says stands before it
    if audited.returncode != AuditError.exit_code or file.name not in error_line:
        raise FaultError(
            f"{file} is spoilt; the audit ended with {audited.returncode}: {error_line}"
        )
    return error_line


def restored(checkpoint: str, spark: str) -> Fault:
    """Return the fault of a checkpoint of which an older copy is put back: it must be refused.

    `spark` is the folder of a home that has Spark's logs of it.
    """

    def fault(world: World, chance: random.Random) -> Done:
        home, copy = world.resolver_home, world.home / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        kill(world)
        planned = _last(home / spark / "offsets")
        shutil.copytree(home / checkpoint, copy)
        world.start_resolver()
        world.until(lambda: _last(home / spark / "commits") > planned, f"{checkpoint} stands still")
        world.pause(chance.uniform(*_SECONDS_BEHIND))
        kill(world)
        done = _last(home / spark / "commits")
        shutil.rmtree(home / checkpoint)
        copy.rename(home / checkpoint)
        refusals = world.start_following_refusals()
        if not refusals:
            raise FaultError(f"{checkpoint} of batch {planned} is taken, after batch {done}")
        return Done(f"a copy of batch {planned}, after batch {done}", " / ".join(refusals))

    return fault


def newest(folders: str) -> Find:
    """Find the file with the greatest number in each of some folders of a home."""

    def find(home: Home) -> list[Path]:
        return [
            file for folder in sorted(home.path.glob(folders)) for file in _numbered(folder)[-1:]
        ]

    return find


def state(home: Home) -> list[Path]:
    """Find the state that the next batch begins with; a killed batch may have left newer state."""
    version = _last(home.resolve_checkpoint / "spark/commits") + 1
    folders = sorted(home.path.glob("checkpoints/resolve/spark/state/0/[0-9]"))
    snapshots = [folder / f"{version}.zip" for folder in folders]
    state_files = [
        snapshot if snapshot.exists() else snapshot.with_suffix(".changelog")
        for snapshot in snapshots
    ]
    return [file for file in state_files if file.exists()]


def _last(folder: Path) -> int:
    """Return the greatest number of a file in a folder, -1 for none."""
    return int(numbered[-1].stem) if (numbered := _numbered(folder)) else -1


def _numbered(folder: Path) -> list[Path]:
    # Delta's checksums have the numbers of the commits beside them.
    files = [file for file in folder.glob("*") if file.suffix != ".crc"]
    return sorted(
        (file for file in files if file.stem.isdecimal()), key=lambda file: int(file.stem)
    )


def files(pattern: str) -> Find:
    """Find files of a home; not those that only Hadoop looks at."""

    def find(home: Home) -> list[Path]:
        matches = sorted(home.path.glob(pattern))
        return [file for file in matches if file.is_file() and not file.name.startswith(".")]

    return find


def named(name: str) -> Find:
    """Find the files or folders of a home by their name."""
    return lambda home: sorted(home.path.glob(name))


def rows(home: Home) -> list[Path]:
    """Find the files that tables consist of now: compaction leaves behind what it has read."""
    row_files = []
    for log in home.tables.glob("*/_delta_log"):
        row_files += [log.parent / part for part in _parts(sorted(log.glob("*.json")))]
    return sorted(row_files)


def _parts(commits: list[Path]) -> set[str]:
    """Return the files that a table's log has added and not removed; none if it is damaged."""
    parts: set[str] = set()
    if [int(commit.stem) for commit in commits] != list(range(len(commits))):
        return parts
    for commit in commits:
        try:
            actions = [json.loads(line) for line in commit.read_text().splitlines()]
        except ValueError:
            return set()
        parts |= {action["add"]["path"] for action in actions if "add" in action}
        parts -= {action["remove"]["path"] for action in actions if "remove" in action}
    return parts


def truncate(file: Path, chance: random.Random) -> None:
    """Leave only a beginning of a file, nothing perhaps."""
    with file.open("r+b") as open_file:
        open_file.truncate(chance.randrange(max(1, file.stat().st_size)))
    _forget_checksum(file)


def tear(file: Path, chance: random.Random) -> None:
    """Let a file end in zeros, as where its size was written and its data were not."""
    size = file.stat().st_size
    kept = chance.randrange(max(1, size))
    file.write_bytes(file.read_bytes()[:kept] + b"\0" * (size - kept))
    _forget_checksum(file)


def lose(path: Path, chance: random.Random) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
        _forget_checksum(path)


def _forget_checksum(file: Path) -> None:
    """Remove Hadoop's checksum: not every file system has one to notice by."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
