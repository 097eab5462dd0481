"""Each package imports only from those above it; nothing goes round in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
#: From what imports nothing of ours to what may import all. On one line: neither imports the other.
ORDER = (
    ("errors",),
    ("protocol", "broker"),
    ("settings",),
    ("kafka",),
    ("spark",),
    ("producer", "resolve"),
    ("ledger", "sql", "views", "testing"),
    ("audit", "operations", "what_if"),
    ("watch",),
    ("up",),
    ("demo", "doctor"),
    ("cli",),
)
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}
#: The entrances: what they import is what they are for.
ENTRANCES = {"resolver", "resolver.__main__"}
#: The version is the root's own: whoever imports a package of it has the root already.
OF_THE_ROOT = "resolver.__version__"
#: Conditions of what only a type checker imports.
FOR_TYPES = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
#: Modules that may import ours inside a function, and why.
LATE = {
    "resolver.cli": "a command waits only for what it runs, and needs only its extra",
    "resolver.watch.watching": "metrics are made only where they are asked for, and need an extra",
}


class Import(NamedTuple):
    """A module of ours, or a name in one, that a module imports."""

    module: str
    name: str
    late: bool


def modules(*folders: str) -> dict[str, Path]:
    """Return our modules' files by their names."""
    files = (file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return {_name(file): file for file in files}


def _name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


OURS = modules("resolver", "pipelines")


@cache
def imports(module: str) -> list[Import]:
    """Return what of ours a module imports; for types alone (TYPE_CHECKING) does not count."""
    file = OURS[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    return [*_imports(ast.parse(file.read_text(encoding="utf-8")), package, late=False)]


def _imports(node: ast.AST, package: str, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in FOR_TYPES:
            yield from _imports(ast.Module(child.orelse, []), package, late)
            continue
        if isinstance(child, ast.Import):
            found = [alias.name for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            base = resolve_name("." * child.level + (child.module or ""), package)
            found = [f"{base}.{alias.name}" for alias in child.names]
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from _imports(child, package, late or inside)
            continue
        yield from (
            Import(_module(name), name, late)
            for name in found
            if name != OF_THE_ROOT and name.split(".")[0] in ("resolver", "pipelines", "tests")
        )


def _module(name: str) -> str:
    """Return the module that has a name, or is it."""
    return name if name in OURS else name.rpartition(".")[0]


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else module


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("if TYPE_CHECKING:\n import resolver.types\nelse:\n import resolver.other", "other"),
        ("if not TYPE_CHECKING:\n import resolver.other", "other"),
        ("if typing.TYPE_CHECKING:\n import resolver.types\nimport resolver.errors", "errors"),
    ],
)
def test_only_imports_for_types_alone_do_not_count(source: str, seen: str) -> None:
    found = [each.name for each in _imports(ast.parse(source), "resolver", late=False)]
    assert found == [f"resolver.{seen}"]


def test_every_package_has_its_place_in_the_order() -> None:
    folders = {
        path.name for path in (ROOT / "resolver").iterdir() if (path / "__init__.py").exists()
    }
    assert folders <= set(LEVEL)


def test_design_md_shows_this_order() -> None:
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    _, _, table = design.partition("| package of `resolver` | role |\n| --- | --- |\n")
    rows = table.partition("\n\n")[0].splitlines()
    packages = [tuple(re.findall(r"`(\w+)`", row.split("|")[1])) for row in rows]
    assert tuple(packages) == ORDER


def test_beside_the_packages_there_are_the_errors_only() -> None:
    loose = {file.name for file in (ROOT / "resolver").glob("*.py")}
    assert loose == {"__init__.py", "__main__.py", "errors.py"}


@pytest.mark.parametrize("module", sorted(set(modules("resolver")) - ENTRANCES))
def test_a_package_imports_only_from_those_above_it(module: str) -> None:
    own = _package(module)
    others = {_package(each.module) for each in imports(module)} - {own}
    assert {other for other in others if LEVEL.get(other, 99) >= LEVEL[own]} == set()


@pytest.mark.parametrize("folder", ["resolver", "pipelines"])
def test_what_is_installed_imports_no_job_and_no_tool(folder: str) -> None:
    outside = {
        (module, each.name)
        for module in modules(folder)
        for each in imports(module)
        if each.name.split(".")[0] not in ("resolver", folder)
    }
    assert outside == set()


def test_what_judges_or_runs_elsewhere_shares_no_code_with_the_resolver() -> None:
    apart = {("resolve", "producer"), ("audit", "resolve"), ("producer", "spark")}
    pairs = {
        (_package(module), _package(each.module)) for module in OURS for each in imports(module)
    }
    assert pairs & apart == set()


def test_no_import_is_hidden_in_a_function() -> None:
    late = {module for module in OURS for each in imports(module) if each.late}
    assert {module for module in late if not module.startswith(tuple(LATE))} == set()


def test_no_module_imports_itself_by_way_of_others() -> None:
    wants = {module: {each.module for each in imports(module)} - {module} for module in OURS}
    left = {module: wanted & set(OURS) for module, wanted in wants.items()}
    while free := {module for module, wanted in left.items() if not wanted}:
        left = {module: wanted - free for module, wanted in left.items() if module not in free}
    assert sorted(left) == []
