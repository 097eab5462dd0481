"""What an operator does who is refused a start: word for word what the refusal says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from .fault_error import FaultError

#: Where a refusal says what to remove, and the folders there.
_REMOVE = re.compile(r"[Rr]emove (.*?) start again")
_FOLDER = re.compile(r"/[^\s,;:]+")


def follow(refusal: str, home: Path) -> list[str]:
    """Do what a refusal says to do by hand, and return what it says to start with.

    Raises `FaultError` where it says neither, or to remove what is not in `home`.
    """
    folders = [Path(folder) for folder in _FOLDER.findall(" ".join(_REMOVE.findall(refusal)))]
    if "--rebuild" not in refusal and not folders:
        raise FaultError(f"refused, and not told what to do: {refusal}")
    for folder in folders:
        if not folder.is_relative_to(home):
            raise FaultError(f"told to remove {folder}, which is not the resolver's: {refusal}")
        if folder.exists():  # one that is gone is as good as removed
            shutil.rmtree(folder)
    return ["--rebuild"] if "--rebuild" in refusal else []
