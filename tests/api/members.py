"""What griffe leaves out: comments of constants, inherited `__init__`, unlisted attributes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from griffe import (
    Alias,
    Attribute,
    Class,
    Docstring,
    DocstringAttribute,
    DocstringSectionAttributes,
    DocstringSectionParameters,
    Function,
    Object,
)

#: Sentence of a docstring that keeps a method off the page.
NOT_API = "Not part of the API."


def read_comment(constant: Attribute) -> None:
    """Take the `#:` comment above a constant for its docstring."""
    if constant.docstring is None and constant.lineno:
        lines = constant.module.lines[: constant.lineno - 1]
        above = [*takewhile(lambda line: line.lstrip().startswith("#:"), reversed(lines))]
        text = "\n".join(line.strip()[2:].strip() for line in reversed(above))
        constant.docstring = Docstring(text, parent=constant) if text else None


def complete(described: Class) -> None:
    """Prepare a class for the templates, which take its members as they stand."""
    for member in map(target, list(described.all_members.values())):
        if _is_hidden(member) and member.parent:
            member.parent.del_member(member.name)
    init = described.all_members.get("__init__")  # where its own is deleted, the inherited
    if init is not None and not _is_hidden(target(init)):
        _construct(described, target(init))
    _list_all_attributes(described)


def _is_hidden(member: Object) -> bool:
    return NOT_API in " ".join(text_of(member).split())


def _construct(described: Class, init: Object) -> None:
    """Show an inherited `__init__` too, and give attributes the types of its arguments."""
    if not isinstance(init, Function):
        return
    described.members["__init__"] = init
    init.returns = None  # a class is called for its instance
    types = {each.name: each.annotation for each in init.parameters}
    for attribute in _attributes(described):
        attribute.annotation = attribute.annotation or types.get(str(attribute.value))


def _list_all_attributes(described: Class) -> None:
    """Complete an Attributes section: the template takes it for the list of all attributes."""
    sections = described.docstring.parsed if described.docstring else []
    items = [
        item
        for section in sections
        if isinstance(section, DocstringSectionAttributes | DocstringSectionParameters)
        for item in section.value
    ]
    attributes = {each.name: each for each in _attributes(described)}
    others = [each for name, each in attributes.items() if name not in {i.name for i in items}]
    for section in sections:
        if isinstance(section, DocstringSectionAttributes):
            for item in section.value:
                item.value = attributes[item.name].value if item.name in attributes else None
            section.value += attributes_section(others).value


def attributes_section(
    attributes: Iterable[Attribute], *, check_public: bool = True
) -> DocstringSectionAttributes:
    """Return a section of attributes, each with the first paragraph of its docstring."""
    shown = [each for each in attributes if not check_public or each.is_public]
    return DocstringSectionAttributes(
        [
            DocstringAttribute(
                each.name,
                description=first_paragraph(each),
                annotation=each.annotation,
                value=each.value,
            )
            for each in shown
        ]
    )


def first_paragraph(each: Object | Alias) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(text_of(each).partition("\n\n")[0].split())


def target(each: Object | Alias) -> Object:
    """Return the object itself where a name is imported or inherited."""
    return each.final_target if isinstance(each, Alias) else each


def text_of(each: Object | Alias) -> str:
    """Return a docstring; empty where there is none."""
    return each.docstring.value if each.docstring else ""


def _attributes(described: Class) -> list[Attribute]:
    members = map(target, described.all_members.values())
    attributes = [each for each in members if isinstance(each, Attribute)]
    for each in attributes:
        read_comment(each)
    return attributes
