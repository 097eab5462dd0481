from __future__ import annotations

import sys
from dataclasses import fields

import pytest

from resolver.broker.jars import CACHE_VARIABLE
from resolver.broker.server import HEAP_VARIABLE
from resolver.settings import Settings, definitions, docs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_the_docs_are_what_the_code_says() -> None:
    assert docs.DOCS.read_text(encoding="utf-8") == docs.docs(), (
        "run python -m resolver.settings.docs"
    )


def test_the_config_file_holds_every_default_and_nothing_else() -> None:
    read = tomllib.loads(docs.CONFIG.read_text(encoding="utf-8"))
    defaults = {known.name: known.default for known in definitions().values()}
    assert read == defaults | {"kafka": {}, "spark": {}}


def test_the_config_file_loads_to_the_defaults() -> None:
    assert Settings.load(docs.CONFIG, {}, {}) == Settings()


def test_each_setting_is_in_the_docs_with_its_meaning_and_a_number_with_its_unit() -> None:
    settings = {known.name for known in fields(Settings)} - {"kafka", "spark", "groups", "origins"}
    assert settings == set(definitions())
    for known in definitions().values():
        assert known.about.endswith(".")
        assert (type(known.default) is int) == bool(known.unit) == bool(known.bounds)
        row = next(
            line for line in docs.docs().splitlines() if line.startswith(f"| `{known.name}`")
        )
        assert known.about in row


@pytest.mark.parametrize("variable", [CACHE_VARIABLE, HEAP_VARIABLE])
def test_variables_that_are_no_settings_are_in_the_docs(variable: str) -> None:
    assert f"| `{variable}` |" in docs.docs()
