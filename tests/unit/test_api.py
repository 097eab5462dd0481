from __future__ import annotations

from inspect import cleandoc
from pathlib import Path

import pytest

import resolver
import resolver.sql
import resolver.testing
from resolver.errors import TxResolverError
from tests.api.command import ROOT, main
from tests.api.page import render_page

SOURCES = {
    "__init__.py": '''
        """A package."""
        from ._sender import Sender
        from .errors import Refused
        __all__ = ["Refused", "Sender"]
        ''',
    "_sender.py": '''
        class _Base:
            def __init__(self, group: str, *, linger_ms: int = 10) -> None:
                self.group = group

        class Sender(_Base):
            """Sends.

            Args:
                group: One | or two.

            Raises:
                Refused: If it may not.

            Attributes:
                group: The group.

            Example:
                ```python
                Sender("orders")
                ```
            """

            async def send(self, body: bytes | None) -> None:
                """Send it."""

            def end(self) -> None:
                """End it. Not part
                of the API.
                """
        ''',
    "errors.py": '''
        class Root(Exception):
            """The root."""
            exit_code = 1

        class Refused(Root):
            """Refused."""
        ''',
    "sql.py": """
        __all__ = ["LIMIT"]
        #: Most rows,
        #: as a number.
        LIMIT = 3
        """,
    "testing.py": """
        __all__ = ["SECONDS"]
        SECONDS = 1
        """,
}
SENDER = """\
### `resolver.Sender`

```python
Sender(group: str, *, linger_ms: int = 10)
```

Sends.

**Parameters:**

Name | Type | Description | Default
---- | ---- | ----------- | -------
`group` | <code>str</code> | One \\| or two. | *required*

**Raises:**

Type | Description
---- | -----------
<code>Refused</code> | If it may not.

**Attributes:**

Name | Type | Description
---- | ---- | -----------
`group` | <code>str</code> | The group.

**Example:**

```python
Sender("orders")
```

#### `resolver.Sender.send`

```python
async def send(body: bytes | None) -> None
```

Send it.

## `resolver.sql`

### `resolver.sql.LIMIT`

```python
LIMIT = 3
```

Most rows,
as a number.

## `resolver.testing`

### `resolver.testing.SECONDS`

```python
SECONDS = 1
```

## `resolver.errors`

### `resolver.errors.Root`

Bases: <code>Exception</code>

The root.

**Attributes:**

Name | Type | Description
---- | ---- | -----------
`exit_code = 1` | |

### `resolver.errors.Refused`

Bases: <code>Root</code>

Refused.
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "resolver").mkdir()
    for name, text in SOURCES.items():
        (tmp_path / "resolver" / name).write_text(cleandoc(text), encoding="utf-8")
    return tmp_path


def test_a_class_is_shown_with_arguments_errors_attributes_and_example(source: Path) -> None:
    page = render_page(source)
    assert page.endswith(SENDER)
    assert "[`resolver.Sender`](#resolversender) | Sends.\n" in page


def test_each_public_name_is_on_the_page() -> None:
    page = render_page(ROOT)
    names = {f"resolver.sql.{name}" for name in resolver.sql.__all__}
    names |= {f"resolver.testing.{name}" for name in resolver.testing.__all__}
    for name in resolver.__all__:
        value = getattr(resolver, name)
        is_error = isinstance(value, type) and issubclass(value, TxResolverError)
        names.add(f"resolver.errors.{name}" if is_error else f"resolver.{name}")
    assert len(names) > 15
    assert {name for name in names if f"### `{name}`\n" not in page} == set()


def test_a_page_that_is_out_of_date_is_told_and_then_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "api.md"
    page.write_text("old\n", encoding="utf-8")
    assert main(["--check"], page) == 1
    assert "run scripts/api" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "old\n"
    assert main([], page) == 0
    assert main(["--check"], page) == 0
