"""Sources of values: a file, the environment, the command. They are merged; the later wins."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import SettingsError
from .definition import Definition
from .groups import TABLE as GROUPS
from .groups import Group, read_group

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Definitions = Mapping[str, Definition]
#: Full name ("queues", "kafka.sasl.password") to its value and origin.
Layer = dict[str, tuple[Any, str]]

TABLES = ("kafka", "spark")
PREFIX = "TXRESOLVER_"
#: Variables with the prefix that are no settings, and their meaning.
NO_SETTINGS = {
    "TXRESOLVER_JAR_CACHE": "Where the jars of Kafka and of Spark's connectors are kept, instead "
    "of `txresolver/jars` in `$XDG_CACHE_HOME` (`~/.cache`).",
    "TXRESOLVER_BROKER_HEAP": "Options of the embedded broker's JVM, instead of `-Xms256m -Xmx1g`.",
    "TXRESOLVER_HOME": "The home that the notebooks show, instead of `.txresolver/demo`.",
    "TXRESOLVER_VERIFY": "1: producers ask their listeners before each commit, as a check would. "
    "`verify` of a producer wins.",
}


def from_file(path: Path, definitions: Definitions) -> Layer:
    """Read a TOML file: settings at its top, options in [kafka] and [spark], [groups.<name>]."""
    origin = f"file {path}"
    layer: Layer = {}
    for name, value in _read_toml(path).items():
        if name in TABLES:
            layer |= {key: (option, origin) for key, option in _options(name, value, path)}
        elif name == GROUPS:
            layer |= {key: (group, origin) for key, group in _groups(value, path)}
        else:
            known(name, definitions, origin).check(value)
            layer[name] = (value, origin)
    return layer


def from_environment(environ: Mapping[str, str], definitions: Definitions) -> Layer:
    """Read TXRESOLVER_NAME, TXRESOLVER_KAFKA__OPTION_NAME and TXRESOLVER_SPARK__...

    Underscores after the double underscore stand for dots. A name in capitals is lowered. Spark's
    names in mixed case are written as they are: TXRESOLVER_SPARK__spark_driver_maxResultSize.
    """
    layer: Layer = {}
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in NO_SETTINGS:
            name = _name_of_variable(variable)
            layer[_canonical(name)] = _parse(
                name, environ[variable], definitions, f"env {variable}"
            )
    return layer


def from_overrides(overrides: Mapping[str, str], definitions: Definitions) -> Layer:
    """Read the values of `--set name=value`."""
    return {
        _canonical(name): _parse(name, value, definitions, "--set")
        for name, value in overrides.items()
    }


def merge(layers: Iterable[Layer], definitions: Definitions) -> dict[str, Any]:
    """Return the fields of `Settings`, `origins` among them."""
    merged: Layer = {}
    for layer in layers:
        merged |= layer
    fields: dict[str, Any] = {table: {} for table in (*TABLES, GROUPS)}
    for name, (value, _) in merged.items():
        table, _, option = name.partition(".")
        if option:
            fields[table][option] = value
        else:
            fields[name] = value
    defaults = dict.fromkeys(definitions, "default")
    fields["origins"] = defaults | {name: origin for name, (_, origin) in merged.items()}
    return fields


def known(name: str, definitions: Definitions, origin: str) -> Definition:
    """Return a setting's definition; raises `SettingsError` with the nearest known name."""
    if name in definitions:
        return definitions[name]
    raise SettingsError(
        f"unknown setting {name!r} ({origin}){_suggestion(name, definitions)}",
        remedy="see all settings with `txresolver config`",
    )


def text(value: object) -> str:
    """Write a value as a file or a command has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(name: str, written: str, definitions: Definitions, origin: str) -> tuple[Any, str]:
    table, _, option = name.partition(".")
    if table in TABLES and option:
        return written, origin
    if table == GROUPS:
        raise SettingsError(
            f"{name} ({origin}) can be given in a file only",
            remedy="give it there, in [groups.<name>]",
        )
    return known(name, definitions, origin).parse(written), origin


def _canonical(name: str) -> str:
    """Complete a Spark setting's name: people write `spark.driver.memory` for it."""
    table, _, option = name.partition(".")
    if table == "spark" and option and not option.startswith(("spark.", "kafka.")):
        return f"spark.{name}"
    return name


def _name_of_variable(variable: str) -> str:
    name = variable.removeprefix(PREFIX)
    table, _, option = name.partition("__")
    if table.lower() not in (*TABLES, GROUPS) or not option:
        return name.lower()
    dotted = option.replace("_", ".")
    return f"{table.lower()}.{dotted.lower() if dotted.isupper() else dotted}"


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        return read
    except OSError as error:
        raise SettingsError(
            f"can't read the settings file {path}: {error.strerror}", remedy="give a readable one"
        ) from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise SettingsError(
            f"{path} is not TOML: {error}", remedy="write it as conf/resolver.toml is written"
        ) from error


def _options(table: str, value: Any, path: Path) -> Iterator[tuple[str, str]]:
    """Flatten a table: `sasl.password = ..` is nested in TOML, `"sasl.password" = ..` is not."""
    if isinstance(value, dict):
        for key, nested in value.items():
            yield from _options(f"{table}.{key}", nested, path)
    elif isinstance(value, str | int | float) and table.partition(".")[2]:
        yield _canonical(table), text(value)
    else:
        raise SettingsError(
            f"{table} in {path} is {type(value).__name__}",
            remedy="give "
            + ("text, a number, or true or false" if "." in table else f"a table, [{table}]"),
        )


def _groups(value: Any, path: Path) -> Iterator[tuple[str, Group]]:
    if not isinstance(value, dict):
        raise SettingsError(f"groups in {path} is {value!r}", remedy="give tables, [groups.orders]")
    for name, section in value.items():
        yield f"{GROUPS}.{name}", read_group(name, section, path)


def _suggestion(name: str, definitions: Definitions) -> str:
    """Find the nearest name; RocketMQ's own names lead to ours."""
    names = {name.lower(): name for name in definitions}
    names |= {d.rocketmq.lower(): d.name for d in definitions.values() if d.rocketmq}
    names |= {table: f"[{table}]" for table in (*TABLES, GROUPS)}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f", did you mean {names[near[0]]}?" if near else ""
