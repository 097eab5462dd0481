"""The entrance to the watch: it is made where the settings ask for one, and needs its extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import SettingsError
from ..settings import Settings

if TYPE_CHECKING:
    from .jobs import JobsWatch


@contextmanager
def watching(settings: Settings, *jobs: str) -> Iterator[JobsWatch | None]:
    """Serve metrics and health of `jobs` (resolve, land) for the length of a `with`.

    Yields None where `metrics_address` is empty. Raises `SettingsError` where the address can't be
    had, or a library is missing.
    """
    if not settings.metrics_address:
        yield None
        return
    try:
        from .jobs import JobsWatch
    except ModuleNotFoundError as missing:
        raise SettingsError(str(missing)) from None
    with JobsWatch(settings, jobs) as watch:
        yield watch
