"""Every fenced block of README and docs is run by a test as it stands, or listed with a reason.

A block that nobody has listed fails, and so does a line of the list whose block is gone.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import pytest

from resolver.protocol import Headers, decode_op
from resolver.protocol.policy import decode_policy
from resolver.settings import Settings

ROOT = Path(__file__).parents[2]
#: Rendered from docstrings, and results of campaigns: `scripts/api` and the tools write them.
MADE = ("docs/api.md", "docs/records/")


class Run(NamedTuple):
    """A test that reads the block from its page and runs it."""

    test: str


class Alike(NamedTuple):
    """A test that does the same in words of its own, since the block needs another place."""

    test: str
    why: str


class Not(NamedTuple):
    """A block that no test runs."""

    why: str


DRAWING = Not("a drawing or an output")
SET_UP = Not("it makes the environment in which the tests run")
HOURS = Not("measurements and campaigns of hours")
SYSTEMD = Not("systemd does not run where the tests do")
QUOTA = Not("a quota of Kafka's, by Kafka's own command and on a cluster with users")
ACLS = Alike("tests/kafka/test_acls.py", "the broker is one with ACLs")
AGENT = Alike("tests/kafka/test_agent_command.py", "the listener is the test's")
ALERTS = Run("tests/unit/test_alerts.py")
CLUSTER = Run("tests/cluster/standalone.py")
DEMO = Alike("tests/e2e/test_demo.py", "the set-up is done, and the folder is the test's")
DOCTOR = Alike("tests/kafka/test_doctor.py", "the broker is the test's")
EXAMPLE = Run("tests/kafka/test_readme_example.py")
FAST = Run("tests/kafka/test_fast.py")
HERE = Run("tests/unit/test_blocks.py")
HOUR = Run("tests/e2e/test_first_hour.py")
ERASE = Alike("tests/kafka/test_operations.py", "the ledger is the test's")
LAB = Alike("tests/notebooks/test_notebooks.py", "JupyterLab is a window for people")
LANGUAGES = Alike("tests/kafka/test_examples.py", "the packages and the database are the test's")
MAINTAIN = Alike("tests/unit/test_maintenance.py", "the ledger is the test's")
NEVER_ENDED = Run("tests/kafka/test_parking.py")
FORCED = Alike("tests/kafka/test_parking.py", "audit and replay have tests of their own")
NIGHT = Run("tests/e2e/test_night.py")
README = Run("tests/unit/test_readme.py")
ROCKETMQ = Run("tests/e2e/test_rocketmq_page.py")
SERVERS = Alike("tests/kafka/test_web_page.py", "the database is the test's")
SPANS = Alike("tests/kafka/test_spans.py", "the receiver is the test's")
TESTING = Run("tests/kafka/test_testing_page.py")
UP = Alike("tests/e2e/test_first_hour.py", "`up` runs for the whole module")
WATCH = Alike("tests/e2e/test_watch.py", "address, producer and agent are the test's")
WEB = Run("tests/kafka/test_web_page.py")

#: Beginnings of each page's blocks, in their order, and what becomes of them.
BLOCKS: dict[str, list[tuple[str, Run | Alike | Not]]] = {
    "README.md": [
        ("scripts/demo", DEMO),
        ("application", DRAWING),
        ("import os", HOUR),
        (".venv/bin/txresolver up", HOUR),
    ],
    "docs/CONTRIBUTING.md": [
        ("scripts/setup", SET_UP),
    ],
    "docs/application.md": [
        ("from resolver import TransactionStatus", EXAMPLE),
        ("import asyncio", EXAMPLE),
        ("from resolver import TransactionAgent", EXAMPLE),
    ],
    "docs/audit.md": [
        ("txresolver audit", HOUR),
        ("invariant", DRAWING),
    ],
    "docs/cluster.md": [
        ("python -m zipfile -c txresolver.zip resolver pip", CLUSTER),
        ("spark-sql --packages io.delta:delta-spark_4.2_2.", HOUR),
    ],
    "docs/design.md": [
        ("┌─ foreachBatch on the driver ──────────┐", DRAWING),
    ],
    "docs/examples/README.md": [
        ('psql "$DATABASE_URL" --file schema.sql', LANGUAGES),
        ("npm ci", LANGUAGES),
        ("go build -o example .", LANGUAGES),
    ],
    "docs/fast.md": [
        ("with TransactionProducer(", FAST),
    ],
    "docs/ledger.md": [
        ("txresolver status", HOUR),
        ("txresolver list --pending --group orders -o json", HOUR),
        ("txresolver what-if --set transaction_check_max=30", HOUR),
        ("from resolver.views import Filter, Ledger", HOUR),
        ("from resolver.views import Filter", HOUR),
        ("scripts/notebooks .txresolver", LAB),
    ],
    "docs/monitoring.md": [
        ("pip install '.[cli,spark,metrics]'", WATCH),
        ("rule_files: [prometheus-alerts.yml] # of conf/", ALERTS),
        ("pip install '.[cli,spark,traces]'", SPANS),
        ("import prometheus_client", WATCH),
        ("txresolver doctor", DOCTOR),
    ],
    "docs/operating.md": [
        (".venv/bin/txresolver up", UP),
        ("[Service]", SYSTEMD),
        ("txresolver kafka transactions find-hanging --topi", NEVER_ENDED),
        ("txresolver kafka transactions abort --topic orde", FORCED),
        ("SELECT h.queue, h.offset, h.transaction_id, h.gr", HOUR),
        ("SELECT source, count(*) AS transactions,", HOUR),
        ("from resolver.settings import Settings", HOUR),
        ("txresolver maintain --set keep_half_days=90 --d", MAINTAIN),
        ("txresolver audit", HOUR),
        ("txresolver kafka console-consumer --topic orders", HOUR),
    ],
    "docs/operations.md": [
        ("txresolver groups", NIGHT),
        ("txresolver settle 4f1c9a2e-order --commit --reas", NIGHT),
        ("txresolver topics create --topic orders.shipped", NIGHT),
        ("txresolver topics create --topic orders.again", NIGHT),
        ("txresolver log", NIGHT),
        ("txresolver erase 4f1c9a2e-order --reason", ERASE),
    ],
    "docs/outbox.md": [
        ("from resolver import MessageRefused, SendError", EXAMPLE),
    ],
    "docs/performance.md": [
        ("scripts/bench", HOURS),
    ],
    "docs/producer.md": [
        ("with producer.transaction(message) as tx:", EXAMPLE),
        ("for message in messages:", EXAMPLE),
    ],
    "docs/protocol.md": [
        ("key", DRAWING),
        ('{"state":"COMMIT_MESSAGE","group":"orders","offs', HERE),
        ('{"state":"UNKNOWN","group":"orders","offsets":[]', HERE),
        ('{"reject":false,"topics":{"*":[],"orders":["orde', HERE),
        ("txresolver topics create --acls --resolver-princ", ACLS),
        ("[groups.orders]", HERE),
        ("kafka-configs.sh --bootstrap-server kafka1:9092", QUOTA),
    ],
    "docs/reliability.md": [
        ("scripts/faults", HOURS),
    ],
    "docs/rocketmq.md": [
        ("import itertools", ROCKETMQ),
        ("from resolver import TransactionProducer", ROCKETMQ),
    ],
    "docs/settings.md": [
        ("[groups.orders]", README),
    ],
    "docs/sql.md": [
        ("log = TransactionLog()", EXAMPLE),
        ('python -c "from resolver.sql import TransactionL', README),
        ("more = 1", EXAMPLE),
        ("def place(item: str) -> None:", HERE),
    ],
    "docs/testing.md": [
        ('pytest_plugins = ["resolver.testing.fixtures"]', TESTING),
        ("import shop", TESTING),
        ("python -m pytest test_shop.py", TESTING),
    ],
    "docs/tutorial.md": [
        ("export SOURCE=$HOME/txresolver", SET_UP),
        ("mkdir shop && cd shop", SET_UP),
        ("txresolver up", UP),
        ("cd shop && . .venv/bin/activate", HOUR),
        ("txresolver topics create --topic shop.orders", HOUR),
        ("import os", HOUR),
        ("python shop.py lamp chair", HOUR),
        ("import os", HOUR),
        ("python mailer.py 2", HOUR),
        ("python shop.py candle", HOUR),
        ("python shop.py vase", HOUR),
        ("cd shop && . .venv/bin/activate", HOUR),
        ("python mailer.py 1", HOUR),
        ("txresolver status", HOUR),
        ("txresolver list --status ROLLBACK", HOUR),
    ],
    "docs/web.md": [
        ("import os", WEB),
        ("export DATABASE_URL=postgresql+psycopg://shop@lo", SERVERS),
        ("from flask import Flask, request", WEB),
        ("gunicorn --workers 2 --threads 4 --bind 127.0.0.", WEB),
        ("from contextlib import asynccontextmanager", WEB),
        ("uvicorn --workers 2 --port 8001 api:app", WEB),
        ("import os", WEB),
        ("celery --app tasks worker --concurrency 2", WEB),
        ("txresolver agent --group orders --listener shop:", AGENT),
    ],
}


def pages() -> dict[str, str]:
    """Return all pages that people write, by their path."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    named = {str(path.relative_to(ROOT)): path for path in paths}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in named.items()
        if "node_modules" not in path.parts and not name.startswith(MADE)
    }


def blocks(text: str) -> list[tuple[str, str]]:
    """Return language and content of each fenced block."""
    return re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", sorted({*BLOCKS, *pages()}))
def test_each_block_is_listed(page: str) -> None:
    found = [content.strip() for _, content in blocks(pages()[page])]
    listed = [begins for begins, _ in BLOCKS.get(page, [])]
    assert [
        text[: len(begins)] for text, begins in zip_longest(found, listed, fillvalue="")
    ] == listed


@pytest.mark.parametrize("page", BLOCKS)
def test_the_tests_that_are_listed_are_there_and_read_the_page(page: str) -> None:
    for _, fate in BLOCKS[page]:
        if not isinstance(fate, Not):
            source = (ROOT / fate.test).read_text(encoding="utf-8")
            assert isinstance(fate, Alike) or f'{Path(page).name}"' in source, fate


def of_protocol(language: str) -> list[str]:
    text = pages()["docs/protocol.md"]
    return [content for kind, content in blocks(text) if kind == language]


def test_the_protocols_json_is_what_it_says() -> None:
    commit, announcement, policy = of_protocol("json")
    tags: Headers = [("TAGS", b"d")]
    assert len(decode_op(commit.encode(), tags).elements) == 2
    assert decode_op(announcement.encode(), tags).announces
    assert decode_policy(policy.encode()).topics["orders"] == ["orders.*", "audit"]


def test_the_protocols_limits_of_groups_are_read_as_they_stand(tmp_path: Path) -> None:
    (text,) = of_protocol("toml")
    (tmp_path / "resolver.toml").write_text(text, encoding="utf-8")
    groups = Settings.load(tmp_path / "resolver.toml", {}).groups
    assert (groups["orders"].topics, groups["*"].topics) == (("orders.*", "audit"), ())


def test_the_core_of_the_django_project_is_in_the_project() -> None:
    core = blocks(pages()["docs/sql.md"])[-1][1].splitlines()
    project = ROOT / "docs" / "examples" / "django" / "shop"
    lines = {
        line.strip() for path in project.rglob("*.py") for line in path.read_text().splitlines()
    }
    assert [line for line in core if line.strip() not in lines] == []
