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

from ..errors import AuditError, FaultError
from ..home import Home
from .audit import run_audit
from .fault import Done, Fault
from .kills import kill_all
from .world import World

_SECONDS_BEHIND = (3.0, 8.0)
#: Of what the audit says, in characters.
_SAID = 300

Find = Callable[[Home], list[Path]]
Spoil = Callable[[Path, random.Random], None]


def damaged(find: Find, *spoils: Spoil) -> Fault:
    """Return the fault of a resolver that was killed and finds one of these files spoilt."""

    def fault(world: World, chance: random.Random) -> Done:
        what, _ = _spoil(world, chance, find, spoils)
        said = world.start_heeding()
        return Done(what, " / ".join(said) or "recovered")

    return fault


def unreadable_rows(*spoils: Spoil) -> Fault:
    """Return the fault of a table whose rows can't be read.

    Land, which only adds, need not notice. Who reads them does: the audit names the file. Then the
    table is removed, with land's checkpoint, and lands again.
    """

    def fault(world: World, chance: random.Random) -> Done:
        what, file = _spoil(world, chance, rows, spoils)
        said = _see_named(file, run_audit(world))
        shutil.rmtree(file.parents[1])
        shutil.rmtree(Home(world.resolver_home).land_checkpoint)
        return Done(what, " / ".join([said, *world.start_heeding()]))

    return fault


def _spoil(
    world: World, chance: random.Random, find: Find, spoils: Sequence[Spoil]
) -> tuple[str, Path]:
    """Kill the resolver and spoil a file of its home; return what was done, and the file."""
    home = Home(world.resolver_home)
    world.until(lambda: find(home), "there is no such file yet")
    world.pause(chance.uniform(0, 3))
    kill_all(world)
    file, spoil = chance.choice(find(home)), chance.choice(spoils)
    spoil(file, chance)
    return f"{spoil.__name__} {file.relative_to(home.path)}", file


def _see_named(file: Path, audited: CompletedProcess[str]) -> str:
    said = audited.stderr.strip()
    if audited.returncode != AuditError.exit_code or file.name not in said:
        raise FaultError(f"{file} is spoilt; the audit ended with {audited.returncode}: {said}")
    return said[:_SAID]


def restored(checkpoint: str) -> Fault:
    """Return the fault of a checkpoint of which an older copy is put back."""

    def fault(world: World, chance: random.Random) -> Done:
        folder = world.resolver_home / "checkpoints" / checkpoint
        copy = world.home / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        kill_all(world)
        shutil.copytree(folder, copy)
        world.start_resolver()
        world.until(lambda: world.judge.recovery is not None, "nothing new is delivered")
        world.pause(chance.uniform(*_SECONDS_BEHIND))
        kill_all(world)
        shutil.rmtree(folder)
        copy.rename(folder)
        said = world.start_heeding()
        return Done(f"an older copy of {checkpoint}", " / ".join(said) or "recovered")

    return fault


def newest(folders: str) -> Find:
    """Find the file with the greatest number in each of some folders of a home."""

    def find(home: Home) -> list[Path]:
        found = []
        for folder in sorted(home.path.glob(folders)):
            # Delta's checksums have the numbers of the commits beside them.
            files = [file for file in folder.iterdir() if file.suffix != ".crc"]
            numbered = [file for file in files if file.stem.isdecimal()]
            found += sorted(numbered, key=lambda file: int(file.stem))[-1:]
        return found

    return find


def files(pattern: str) -> Find:
    """Find files of a home; not those that only Hadoop looks at."""

    def find(home: Home) -> list[Path]:
        found = sorted(home.path.glob(pattern))
        return [file for file in found if file.is_file() and not file.name.startswith(".")]

    return find


def named(name: str) -> Find:
    """Find the files or folders of a home by their name."""
    return lambda home: sorted(home.path.glob(name))


def rows(home: Home) -> list[Path]:
    """Find the files that tables consist of now: compaction leaves behind what it has read."""
    found = []
    for log in home.tables.glob("*/_delta_log"):
        found += [log.parent / part for part in _parts(sorted(log.glob("*.json")))]
    return sorted(found)


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
