"""The step with its source altered: to see that the comparison with the model notices."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import resolver.resolve.step

_numbers = count()


class Change(NamedTuple):
    """A substitution in one file of `resolver/resolve/step`, and what it breaks."""

    file: str
    old: str
    new: str
    breaks: str


@contextmanager
def altered_step(changes: Sequence[Change], folder: Path) -> Iterator[ModuleType]:
    """Load `resolver.resolve.step` with changes, beside the real one and over its records."""
    assert resolver.resolve.step.__file__ is not None
    copy = folder / f"step_{next(_numbers)}"
    shutil.copytree(Path(resolver.resolve.step.__file__).parent, copy)
    for change in changes:
        source = (copy / change.file).read_text()
        found = source.count(change.old)
        assert found == 1, f"{change.file} has {change.old!r} {found} times; adapt this list"
        (copy / change.file).write_text(source.replace(change.old, change.new))
    name = f"resolver.resolve.{copy.name}"
    spec = importlib.util.spec_from_file_location(
        name, copy / "__init__.py", submodule_search_locations=[str(copy)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        for loaded in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
            del sys.modules[loaded]
