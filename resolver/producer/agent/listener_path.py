"""Loads a listener by its path in Python, for the command `txresolver agent`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from ...errors import ListenerError
from ..listener import check_listener


def load_listener(path: str) -> Any:
    """Load `package.module:Class`, as seen from the current folder, and make an instance of it.

    The path may also name a function that returns a listener, or a listener. Raises
    `ListenerError`.
    """
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ListenerError(f"the listener is {path!r}", remedy="give package.module:Class")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        target: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            target = getattr(target, name)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ListenerError(
            f"can't load the listener {path!r}: {type(error).__name__}: {error}",
            remedy="give package.module:Class, importable from here",
        ) from error
    except Exception as error:
        raise _failed(path, f"importing {module_name}", error) from error
    try:
        listener = target() if callable(target) else target
    except Exception as error:
        raise _failed(path, "making it", error) from error
    check_listener(listener)
    return listener


def _failed(path: str, doing: str, error: Exception) -> ListenerError:
    return ListenerError(
        f"the listener {path!r} was found, and {doing} failed: {type(error).__name__}: {error}. "
        "It is made without arguments",
        remedy="see that what it needs is there, such as its database",
    )
