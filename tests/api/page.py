"""The page: the public names that griffe finds in the source, rendered by griffe2md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from griffe import Alias, Attribute, Class, Expr, GriffeLoader, Module, Object
from griffe2md import ConfigDict, prepare_context, prepare_env
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, PrefixLoader

from .members import attributes_section, complete, first_paragraph, read_comment, target, text_of

INTRODUCTION = """\
# API reference

The public names, their signatures and their docstrings. A name that is not on this page may
change in any version. `scripts/api` writes the page: change the docstrings instead.
"""
#: Modules with public names; a name that two of them have is described where it is defined.
MODULES = ("resolver", "resolver.sql", "resolver.testing", "resolver.errors")
CONFIG: ConfigDict = {
    "heading_level": 3,
    "line_length": 88,
    "members_order": "source",
    "docstring_section_style": "table",
    "show_signature_annotations": True,
    "summary": {"attributes": True},
}
#: Errors without inherited members: each would repeat the exit code of its base.
ERRORS_CONFIG: ConfigDict = {**CONFIG, "inherited_members": False}

_GRIFFE2MD = PackageLoader("griffe2md", "templates")
#: Templates of this folder before those of griffe2md, which they include as `griffe2md/…`.
_TEMPLATES = ChoiceLoader(
    [
        FileSystemLoader(Path(__file__).parent / "templates"),
        _GRIFFE2MD,
        PrefixLoader({"griffe2md": _GRIFFE2MD}),
    ]
)
Public = Sequence[Object | Alias]


def render_page(root: Path) -> str:
    """Return the Markdown of the package `resolver` in the folder `root`."""
    modules = {module: _public_names(module) for module in _load(root)}
    every = [*chain.from_iterable(modules.values())]
    shown = {each.canonical_path for each in every}
    for each in map(target, every):
        if isinstance(each, Class):
            complete(each)
        elif isinstance(each, Attribute):
            read_comment(each)
    parts = [INTRODUCTION, _contents(every)]
    for module, names in modules.items():
        config = ERRORS_CONFIG if module.path == "resolver.errors" else CONFIG
        parts += [f"## `{module.path}`", text_of(module)]
        parts += [_described(each, config, shown) for each in names]
    text = re.sub(r" +$", "", "\n\n".join(parts), flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


@cache
def _environment() -> Environment:
    # HTML is not escaped: the page is Markdown.
    environment: Environment = prepare_env(Environment(loader=_TEMPLATES, autoescape=False))  # noqa: S701
    environment.filters["newline_to_br"] = _cell
    environment.filters["as_attributes_section"] = attributes_section
    return environment


def _load(root: Path) -> list[Module]:
    """Read the source without importing it."""
    loader = GriffeLoader(search_paths=[root], docstring_parser="google", allow_inspection=False)
    loader.load("resolver", try_relative_path=False)
    loader.resolve_aliases()
    return [loader.modules_collection[name] for name in MODULES]


def _public_names(module: Module) -> Public:
    """Return the names in `__all__`, or else its classes; not those of another section."""
    classes = [name for name, each in module.members.items() if isinstance(each, Class)]
    members = [module.members[str(name)] for name in module.exports or classes]
    others = tuple(f"{name}." for name in MODULES if name.startswith(f"{module.path}."))
    return [each for each in members if not each.canonical_path.startswith(others)]


def _is_public(base: str | Expr, shown: set[str]) -> bool:
    path = base.canonical_path if isinstance(base, Expr) else base
    return path in shown or not path.startswith("resolver.")


def _contents(names: Public) -> str:
    """Return a table of names, each with the first paragraph of its docstring."""
    rows = [
        f"[`{each.path}`](#{_anchor(each.path)}) | {_cell(first_paragraph(each))}" for each in names
    ]
    return "\n".join(["Name | Meaning", "--- | ---", *rows])


def _cell(text: str) -> str:
    """Return text for a cell of a table, which a bare `|` would end."""
    return text.strip().replace("\n\n", "<br>").replace("\n", " ").replace("|", "\\|")


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w-]", "", heading.lower())


def _described(each: Object | Alias, config: ConfigDict, shown: set[str]) -> str:
    """Return a name's heading, signature, docstring and members."""
    described = target(each)
    if isinstance(described, Class):
        bases_public = all(_is_public(base, shown) for base in described.bases)
        config = {**config, "show_bases": bases_public}
    template = _environment().get_template(f"{each.kind.value}.md.jinja")
    return template.render(prepare_context(each, config))
