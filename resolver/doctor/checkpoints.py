"""The home: its checkpoint beside the marker in Kafka, its tables beside land's checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from ..resolve.delivery.marker import NO_BATCH
from ..resolve.delivery.marker_group import MarkerGroup
from ..settings import Settings
from ..up.home import Home
from ..views.view import TABLES
from .finding import Finding, error, ok, warning

_REBUILD = "start with --rebuild, on a new checkpoint; nothing is delivered twice"


def checkpoint(home: Home, settings: Settings) -> Iterator[Finding]:
    """Yield whether the marker and the home's checkpoint of resolve belong together."""
    folder = home.resolve_checkpoint
    group = MarkerGroup(settings)
    try:
        marker = group.read()
    finally:
        group.close()
    if not (folder / "identity").exists():
        if marker is not None:
            yield warning(
                "checkpoint",
                f"{home.path} has none, and {settings.topic_prefix}* was delivered by another: "
                f"{marker}",
                f"start where that checkpoint is; if it is lost, {_REBUILD}",
            )
        else:
            yield ok("checkpoint", f"{home.path} has none yet, and nothing was delivered yet")
        return
    identity, planned = (
        json.loads((folder / "identity").read_text()),
        _last(folder / "spark/offsets"),
    )
    if marker is None:
        seen = f"{folder} has planned batch {planned}, and Kafka has no marker"
        remedy = f"if anything was delivered, {_REBUILD}"
        yield warning("checkpoint", seen, remedy)
    elif marker.checkpoint != identity:
        seen = f"the marker is of checkpoint {marker.checkpoint}, and {folder} is {identity}"
        yield error(
            "checkpoint", seen, f"start in the home of the first; if it is lost, {_REBUILD}"
        )
    elif marker.batch > planned:
        seen = (
            f"the marker names batch {marker.batch}, and {folder} knows {planned} only: it is older"
        )
        yield error("checkpoint", seen, _REBUILD)
    else:
        batch = "none" if marker.batch == NO_BATCH else marker.batch
        yield ok("checkpoint", f"planned batch {planned}; last batch with output: {batch}")


def tables(home: Home) -> Iterator[Finding]:
    """Yield whether the home's tables and land's checkpoint belong together."""
    checkpoint = home.land_checkpoint
    if not (checkpoint / "metadata").exists():
        yield ok("tables", f"{checkpoint} has not begun")
        return
    query = json.loads((checkpoint / "metadata").read_text().strip().splitlines()[-1])["id"]
    landed = _landed(checkpoint / "landed")
    planned = _last(checkpoint / "offsets")
    wrong = [
        finding
        for name in TABLES
        for finding in _table(home.tables / name, f"{query}.{name}", landed.get(name), planned)
    ]
    yield from wrong or [ok("tables", f"{home.tables} fits the checkpoint, up to batch {planned}")]


def _table(path: Path, app_id: str, landed: int | None, planned: int) -> Iterator[Finding]:
    about = f"table {path.name}"
    remove = f"stop land, remove {path.parents[1] / 'checkpoints' / 'land'}, and start again"
    try:
        last_batch = DeltaTable(path).transaction_version(app_id)
    except TableNotFoundError:
        yield error(about, f"{path} is gone", f"{remove}: what Kafka still has lands again")
        return
    except (DeltaError, OSError) as failed:
        seen = f"{path} can't be read: {' '.join(str(failed).split())[:300]}"
        yield error(about, seen, "put its files back, or remove the table: land says what else")
        return
    if landed is not None and (last_batch is None or last_batch < landed):
        seen = (
            f"{path} has batch {last_batch}, and the checkpoint says {landed}: the table is older"
        )
        yield error(about, seen, f"{remove}: what Kafka still has lands again")
    elif last_batch is not None and last_batch > planned:
        seen = f"{path} has batch {last_batch}, and the checkpoint knows {planned}: it is older"
        yield error(about, seen, f"{remove}: land goes on after the tables")


def _landed(folder: Path) -> dict[str, int]:
    last = _last(folder)
    kept: dict[str, int] = json.loads((folder / str(last)).read_text()) if last >= 0 else {}
    return kept


def _last(folder: Path) -> int:
    """Return the greatest number that names a file; -1 without one."""
    if not folder.is_dir():
        return -1
    return max((int(file.name) for file in folder.iterdir() if file.name.isdecimal()), default=-1)
