"""The contract of `resolver.testing`, on each database: it finds each mistake, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from resolver.errors import ContractBroken, ListenerError
from resolver.sql import AsyncSqlTransactionListener, SqlTransactionListener
from resolver.testing import check_contract

from . import local_transactions as runs
from .local_transactions import LOG, Fails, OnlyLooks, orders

#: Of the three kinds those with the most different locks: MariaDB's are as PostgreSQL's here.
pytestmark = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(autouse=True)
def left_open() -> Iterator[None]:
    yield
    runs.close_left_open()


def check(
    url: str,
    engine: Engine,
    run: Callable[..., None],
    listener: Any = None,
    patience_seconds: float = 20,
) -> None:
    listener = listener or SqlTransactionListener(engine, LOG, lock_wait_seconds=0.2)
    check_contract(
        listener, partial(run, url), partial(orders, engine), patience_seconds=patience_seconds
    )


@pytest.mark.parametrize("run", [runs.good, runs.hooked])
def test_the_log_and_its_listener_keep_the_contract(
    run: Callable[..., None], url: str, engine: Engine
) -> None:
    check(url, engine, run)


def test_an_async_listener_keeps_it_too(url: str, engine: Engine) -> None:
    shop = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"), poolclass=NullPool)
    check(url, engine, runs.good, AsyncSqlTransactionListener(shop, LOG, lock_wait_seconds=0.2))


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (runs.without_id, "has returned, and a check gets ROLLBACK_MESSAGE instead of COMMIT"),
        (runs.committed_outside, "has returned, and its row is not in the database"),
        (runs.id_before, "failed before its commit, and a check gets COMMIT_MESSAGE"),
        (runs.id_after, "back before it ran, and its row is in the database"),
        (runs.never_calls, "did not call before_commit"),
    ],
)
def test_a_local_transaction_at_fault_is_told(
    run: Callable[..., None], told: str, url: str, engine: Engine
) -> None:
    with pytest.raises(ContractBroken, match=told):
        check(url, engine, run)


@pytest.mark.gate
def test_a_listener_without_a_barrier_is_told(url: str, engine: Engine) -> None:
    with pytest.raises(ContractBroken, match=r"in the database; let the check write"):
        check(url, engine, runs.good, OnlyLooks(engine))


def test_a_listener_that_fails_is_told_with_its_exception(url: str, engine: Engine) -> None:
    with pytest.raises(ContractBroken, match=r"no answer .*raised KeyError") as caught:
        check(url, engine, runs.good, Fails(), patience_seconds=2)  # it never answers
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_local_transaction_that_no_other_process_can_get_is_refused(
    url: str, engine: Engine
) -> None:
    listener = SqlTransactionListener(engine, LOG)
    with pytest.raises(ListenerError, match="give a function of a module"):
        check_contract(listener, lambda _id, _before: None, partial(orders, engine))
