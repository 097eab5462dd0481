"""docs/examples/django as a project of its own: migrated, an order placed, checks answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from resolver.broker import Broker
from resolver.sql import TransactionLog
from tests.kafka.protocol_topics import ProtocolTopics
from tests.support.patience import PATIENCE_SECONDS

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "django"
ANSWERS = """
import django
django.setup()
from django.db import connection, transaction
from resolver import Message
from resolver.errors import TransactionLogError
from resolver.protocol import Half, HalfId
from shop import orders
from shop.transactions import listener, log

def answer(transaction_id):
    half = Half(transaction_id, "shop", "orders.placed", 1, None, b"", [])
    return listener.check_local_transaction(Message.of_half(half, HalfId(0, 0))).value

with connection.cursor() as cursor:
    cursor.execute("SELECT transaction_id FROM transaction_log")
    (placed,) = cursor.fetchone()
print(answer(placed), answer("none"))
try:
    log.commit(connection, "autocommit")
except TransactionLogError:
    print("refused")
try:
    with transaction.atomic():
        log.commit(connection, "undone")
        raise KeyError
except KeyError:
    print(answer("undone"))
try:
    with transaction.atomic():
        orders.place("lamp")
except RuntimeError as error:
    print(error)
orders.producer().close()
"""
POSTGRESQL = """
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": "{name}",
    "HOST": "{host}", "USER": "test"}}}}
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The example in a folder of its own; for PostgreSQL with its settings and its DDL."""
    folder = tmp_path / "django"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.db"))
    if request.param == "postgresql":
        where = make_url(request.getfixturevalue("postgresql").new_database())
        with (folder / "shop" / "settings.py").open("a") as settings:
            settings.write(POSTGRESQL.format(name=where.database, host=where.query["host"]))
        migration = folder / "shop" / "migrations" / "0001_initial.py"
        exact = migration.read_text().replace("VARCHAR(128)", 'VARCHAR(128) COLLATE "C"')
        migration.write_text(exact)
    return folder


def run(project: Path, kafka: Broker, prefix: str, *arguments: str) -> str:
    names = {
        "TXRESOLVER_BOOTSTRAP_SERVERS": kafka.bootstrap,
        "KAFKA_TOPIC_PREFIX": prefix,
        "DJANGO_SETTINGS_MODULE": "shop.settings",
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=os.environ | names,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_places_an_order_and_answers_checks(
    project: Path, kafka: Broker, prefix: str
) -> None:
    ProtocolTopics(kafka.bootstrap, prefix, queues=1).make("shop")
    run(project, kafka, prefix, "manage.py", "migrate")
    run(project, kafka, prefix, "manage.py", "place", "lamp")
    run(project, kafka, prefix, "manage.py", "prune_transaction_log")
    assert run(project, kafka, prefix, "-c", ANSWERS).splitlines() == [
        "COMMIT_MESSAGE ROLLBACK_MESSAGE",
        "refused",
        "ROLLBACK_MESSAGE",
        "A durable atomic block cannot be nested within another atomic block.",
    ]


def test_its_migration_is_the_ddl() -> None:
    migration = (EXAMPLE / "shop" / "migrations" / "0001_initial.py").read_text()
    made = TransactionLog().ddl("sqlite")
    assert " ".join(made.split()) in " ".join(migration.split())
    with create_engine("sqlite://").begin() as connection:
        for statement in made.split(";"):
            connection.execute(text(statement))
