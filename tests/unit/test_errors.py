"""Every error of the project is in one tree, in one file, and has its remedy as a field."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from resolver import errors
from resolver.errors import RecordsAway, TxResolverError
from resolver.producer.agent.listener_path import load_listener

from .test_layers import OURS

#: Modules that run when they are imported.
_PROGRAMS = ("__main__",)
_ROOT = Path(__file__).parents[2]
#: Verbs of a remedy, beside those with which the remedies in the code begin.
_VERBS = [
    "add",
    "ask",
    "call",
    "check",
    "choose",
    "copy",
    "correct",
    "delete",
    "finish",
    "fix",
    "give",
    "go",
    "grant",
    "install",
    "let",
    "look",
    "lower",
    "make",
    "move",
    "name",
    "put",
    "raise",
    "remove",
    "rename",
    "restart",
    "run",
    "say",
    "see",
    "send",
    "set",
    "start",
    "stop",
    "subclass",
    "try",
    "use",
    "wait",
    "write",
]
#: First words of a remedy that begin a condition, as messages may have it too.
_CONDITIONS = {"if", "on", "where"}


def test_every_error_is_defined_in_one_file_and_named_in_its_tree() -> None:
    found = _all_errors()
    assert {error.__module__ for error in found} == {errors.__name__}
    assert errors.__doc__ is not None
    drawn = {line.split("─ ")[1].split()[0] for line in errors.__doc__.splitlines() if "─ " in line}
    assert drawn == {error.__name__ for error in found}


def test_the_text_is_the_message_and_the_remedy() -> None:
    error = TxResolverError("the port is taken", remedy="give another")
    assert (error.message, error.remedy) == ("the port is taken", "give another")
    assert str(error) == "the port is taken; give another"


def test_without_a_remedy_the_text_is_the_message() -> None:
    error = TxResolverError("the JVM has ended")
    assert (str(error), error.remedy) == ("the JVM has ended", "")


def test_every_error_is_pickled_with_its_remedy() -> None:
    kind: Any
    for kind in _all_errors() | {TxResolverError}:
        queues = ([7],) if kind is RecordsAway else ()
        error = kind(*queues, "the port is taken", remedy="give another")
        read = pickle.loads(pickle.dumps(error))  # noqa: S301
        assert type(read) is kind
        assert vars(read) == vars(error)
        assert str(read) == "the port is taken; give another"


def test_an_error_of_another_process_has_its_remedy() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        error = pool.submit(load_listener, "orders").exception(timeout=60)
    assert isinstance(error, errors.ListenerError)
    assert error.remedy == "give package.module:Class"


@pytest.mark.parametrize(
    "text",
    [
        "port is 0; give another",
        "port is 0. Give another",
        "port is 0: give another",
        "port is 0, give another",
        "port is 0; if it is taken, give another",
        "port is {port}; {name} is taken, so give another",
    ],
)
def test_a_remedy_in_a_message_is_found(text: str) -> None:
    assert _hidden(text, {"give"}) == ["give"]


def test_no_message_has_a_remedy_in_its_text() -> None:
    raised = _raised()
    assert len(raised) > 200
    begins = {remedy.split()[0].lower() for _, _, remedy in raised if remedy}
    verbs = begins.union(_VERBS) - _CONDITIONS
    assert not [(place, text) for place, text, _ in raised if _hidden(text, verbs)]


def test_one_joiner_fits_all_messages_and_remedies() -> None:
    names = ("Kafka", "Spark")
    for place, message, remedy in _raised():
        assert not message.endswith((".", ";", ":", "?", " ")), place
        assert not remedy.endswith((".", ";", ":", "?", " ")), place
        assert not remedy[:1].isupper() or remedy.startswith(names), place


def _hidden(text: str, verbs: set[str]) -> list[str]:
    """Return the verbs of a remedy behind a joiner in a message, {} standing for what varies."""
    behind = re.findall(r"(?<=[;:.,?] )(?:please |so )?(\w+)", text)
    return [word.lower() for word in behind if word.lower() in verbs]


@cache
def _raised() -> list[tuple[str, str, str]]:
    """Return place, message and remedy of all errors that the code makes, as far as written."""
    kinds = {error.__name__ for error in _all_errors()} | {TxResolverError.__name__}
    files = [
        file for folder in ("resolver", "pipelines") for file in (_ROOT / folder).rglob("*.py")
    ]
    return [
        (f"{file}:{node.lineno}", *_texts(node))
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and _name(node.func) in kinds
    ]


def _texts(call: ast.Call) -> tuple[str, str]:
    remedy = [keyword.value for keyword in call.keywords if keyword.arg == "remedy"]
    message = call.args[1] if _name(call.func) == RecordsAway.__name__ else call.args[0]
    return _literal(message), _literal(remedy[0]) if remedy else ""


def _literal(node: ast.expr) -> str:
    """Return a text as written, {} standing for what varies."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_literal, node.values))
    return "{}"


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@cache
def _all_errors() -> set[type[TxResolverError]]:
    for module in OURS:
        if not module.endswith(_PROGRAMS):
            importlib.import_module(module)
    ours = {module.split(".")[0] for module in OURS}
    return {
        error for error in _subclasses(TxResolverError) if error.__module__.split(".")[0] in ours
    }


def _subclasses(error: type[TxResolverError]) -> Iterator[type[TxResolverError]]:
    for subclass in error.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
