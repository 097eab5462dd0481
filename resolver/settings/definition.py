"""The definition of a setting: all but its value. It is metadata of the dataclass's field."""

from __future__ import annotations

import re
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar, cast

from ..errors import SettingsError
from ..protocol.record import short

T = TypeVar("T", bound="bool | int | str")
_WHOLE = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a setting: bounds are inclusive, `rocketmq` is RocketMQ's name, if any."""

    name: str
    default: bool | int | str
    section: str
    about: str
    unit: str = ""
    rocketmq: str = ""
    least: int | None = None
    most: int | None = None

    @property
    def kind(self) -> str:
        return {bool: "true or false", int: "a whole number", str: "text"}[type(self.default)]

    @property
    def bounds(self) -> str:
        """The legal range as text; every number has one."""
        return "" if self.least is None else f"{self.least} to {self.most}"

    def parse(self, written: str) -> bool | int | str:
        """Return the value of text from the environment or the command."""
        if isinstance(self.default, bool) and written.lower() in ("true", "false"):
            return written.lower() == "true"
        if type(self.default) is int and _WHOLE.fullmatch(written.strip()):
            return int(written)
        if isinstance(self.default, str):
            return written
        raise self.refused(written)

    def check(self, value: object) -> None:
        """Raise `SettingsError` if `value` has another type or is out of bounds."""
        if type(value) is not type(self.default):
            raise self.refused(value)
        if type(value) is int and not cast(int, self.least) <= value <= cast(int, self.most):
            raise self.refused(value)

    def refused(self, value: object) -> SettingsError:
        bounds = f" from {self.bounds}" if self.bounds else ""
        unit = f" ({self.unit})" if self.unit else ""
        return SettingsError(
            f"{self.name} is {short(value)}",
            remedy=f"give {self.kind}{bounds}{unit}, as in {self.example}",
        )

    @property
    def example(self) -> str:
        """The line of a file that sets the default."""
        return f"{self.name} = {toml_value(self.default)}"


def setting(
    default: T,
    about: str,
    *,
    section: str,
    unit: str = "",
    rocketmq: str = "",
    bounds: tuple[int, int] | None = None,
) -> T:
    """Make a dataclass field of a setting; a number needs bounds."""
    least, most = bounds or (None, None)
    known = {
        "section": section,
        "about": about,
        "unit": unit,
        "rocketmq": rocketmq,
        "least": least,
        "most": most,
    }
    return field(default=default, metadata={"setting": known})


def definitions_of(settings_class: Any) -> dict[str, Definition]:
    """Read the definitions back from the dataclass's fields, in their order."""
    return {
        known.name: _definition(known)
        for known in fields(settings_class)
        if "setting" in known.metadata
    }


def toml_value(value: bool | int | str) -> str:
    """Write a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f'"{value}"'


def _definition(known: Field[Any]) -> Definition:
    default: Any = known.default
    return Definition(name=known.name, default=default, **known.metadata["setting"])
