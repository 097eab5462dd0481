"""Each test gets an empty database of its own, of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from resolver.sql import TransactionLog


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Lead to an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    made: str = request.getfixturevalue(request.param).new_database()
    return made


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """The database, with a table for orders and the transaction log."""
    made = create_engine(url)
    TransactionLog().metadata.create_all(made)
    with made.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (item VARCHAR(128))")
    yield made
    made.dispose()
