"""README, docs/tutorial.md and docs/operating.md as they stand: all of them beside one `up`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from resolver.broker import spark_jars
from tests.support.commands import Command, command
from tests.support.pages import section
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
LEDGER = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
AUDIT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
CLUSTER = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
SECONDS = PATIENCE_SECONDS


class FirstHour(NamedTuple):
    """A user's folder in which `up` runs, and the lines of its next steps."""

    folder: Path
    up: Command
    steps: dict[str, str]

    def shell(self, line: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a line of a page, by a shell in the folder."""
        programs = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/bash", "-c", line],
            cwd=self.folder,
            env={**os.environ, "PATH": programs, **env},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def program(self) -> subprocess.CompletedProcess[str]:
        """Run the README's program, with the address that `up` has named."""
        (program,) = blocks(README, "python")
        (self.folder / "shop.py").write_text(program)
        export = self.steps["a producer's address"]
        return self.shell(f"{export}; python shop.py")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def lines_with(page: str, words: str) -> list[str]:
    """Return the command lines of a page that contain the words, without their comments."""
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines if words in line]


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstHour]:
    folder = tmp_path_factory.mktemp("first-hour")
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    with command("up", log=folder / "up.log", cwd=folder) as up:
        up.until_said("Ctrl-C")
        said = re.findall(r"^  (.+?)  +(.+)$", up.output(), re.MULTILINE)
        yield FirstHour(folder, up, dict(said))


def test_the_terminal_of_up_says_what_it_does_and_has_no_raw_line(hour: FirstHour) -> None:
    said = hour.up.output()
    for stage in (
        "Kafka runs, after",
        "Spark runs, after",
        "resolve runs, after",
        "land runs, aft",
    ):
        assert stage in said
    log_line = re.compile(r"\d{4}-\d\d-\d\d \S+ (INFO|WARNING) |delivering: |ready: |  \S")
    assert [line for line in said.splitlines() if not log_line.match(line)] == []
    assert hour.steps["the Delta tables"] == str(hour.folder / ".txresolver" / "tables")


def test_a_commit_to_a_topic_that_is_missing_is_told_with_the_commands(hour: FirstHour) -> None:
    refused = hour.program()
    assert refused.returncode != 0
    assert "txresolver topics create --topic orders.placed" in refused.stderr
    # A producer that does not look learns it from `up`.
    (folder := hour.folder / "careless").mkdir()
    program = (hour.folder / "shop.py").read_text()
    careless = program.replace("listener) as", "listener, check_real_topics=False) as")
    (folder / "shop.py").write_text(careless)
    export = hour.steps["a producer's address"]
    ended = hour.shell(f"{export}; cd careless; python shop.py")
    assert ended.returncode == 0, ended.stderr
    hour.up.until_said("ended as UNDELIVERABLE")
    (line,) = [line for line in hour.up.output().splitlines() if "as UNDELIVERABLE" in line]
    assert "make it with `txresolver topics create --topic orders.placed`" in line
    see = line.rpartition("See them: ")[2]
    assert "lamp" in hour.shell(f"{see} --max-messages 1").stdout


def test_the_readmes_program_is_delivered_and_javas_consumer_reads_it(hour: FirstHour) -> None:
    (make,) = lines_with(README, "topics create")
    made = hour.shell(make)
    assert "orders.placed" in made.stdout, made.stderr
    assert made.stderr == ""
    assert hour.program().returncode == 0
    (readmes,) = lines_with(README, "txresolver kafka")
    assert "lamp" in hour.shell(readmes).stdout
    tools = section(OPERATING, "## Other commands")
    read, _, listed = lines_with(tools, "txresolver kafka")
    consumed = hour.shell(f"{read} --max-messages 1")
    assert "lamp" in consumed.stdout, consumed.stderr
    assert "orders.placed" in hour.shell(listed).stdout.splitlines()
    step = hour.shell(f"{hour.steps['read its messages']} --max-messages 1")
    assert "lamp" in step.stdout, step.stderr


def test_the_tutorial_from_the_topic_to_the_ledger(hour: FirstHour) -> None:
    shop, mailer = blocks(TUTORIAL, "python")
    (hour.folder / "shop.py").write_text(shop)
    (hour.folder / "mailer.py").write_text(mailer)
    export = hour.steps["a producer's address"]
    lines = iter(lines_with(TUTORIAL, ""))
    assert "txresolver up" in lines
    assert next(lines).startswith("cd shop")
    assert next(lines).startswith("export TXRESOLVER_BOOTSTRAP_SERVERS=")

    def run(expected: int = 0) -> str:
        ran = hour.shell(f"{export}; {next(lines)}")
        assert ran.returncode == expected, ran.stdout + ran.stderr
        return ran.stdout

    assert "shop.orders" in run()
    assert run().split() == ["ordered:", "lamp", "ordered:", "chair"]
    assert run() == "mail: lamp\nmail: chair\n"
    assert run(expected=1) == run(expected=1) == ""  # the candle and the vase
    assert next(lines).startswith("cd shop")
    assert next(lines).startswith("export TXRESOLVER_BOOTSTRAP_SERVERS=")
    _, *agent = next(lines).split()
    servers = {"TXRESOLVER_BOOTSTRAP_SERVERS": export.partition("=")[2]}
    log = hour.folder / "agent.log"
    with command(*agent, log=log, cwd=hour.folder, env=servers) as answering:
        assert run() == "mail: candle\n"
        answering.until_said("is answered ROLLBACK")
        answering.process.terminate()  # it sends its last answers first
        assert answering.exit_code() == 0
    has_landed = time.monotonic() + PATIENCE_SECONDS
    while "ROLLBACK" not in hour.shell("txresolver status").stdout:
        assert time.monotonic() < has_landed, hour.shell("txresolver status").stdout
    for _ in ("status", "list"):
        assert {"COMMIT", "ROLLBACK"} <= set(run().split())
    (vase,) = json.loads(hour.shell("txresolver list --status ROLLBACK -o json").stdout)
    assert vase["topic"] == "shop.orders"
    why = hour.shell(f"txresolver why {vase['transaction_id'][:13]}").stdout
    assert "answers check 1" in why
    assert vase["transaction_id"] in run()
    run()
    assert next(lines, None) is None
    (hour.folder / "shop.py").write_text(shop.replace("shop.orders", "shop.order"))
    (table,) = re.findall(r"`(python shop\.py \w+)`", TUTORIAL)
    refused = hour.shell(f"{export}; {table}")
    assert refused.returncode != 0
    assert "txresolver topics create --topic shop.order" in refused.stderr


def test_the_ledgers_program_and_sql_run_as_they_stand(hour: FirstHour) -> None:
    (program,) = blocks(OPERATING, "python")
    queries = blocks(OPERATING, "sql")
    assert len(queries) == 2
    shown = "".join(f"spark.sql({query!r}).show()\n" for query in queries)
    _, on_spark = blocks(LEDGER, "python")
    (hour.folder / "look.py").write_text(program + shown + on_spark)
    looked = hour.shell("python look.py")
    assert looked.returncode == 0, looked.stderr[-3_000:]
    assert "p50_ms" in looked.stdout
    assert "transaction_id" in looked.stdout


def test_the_commands_and_the_program_about_the_ledger_run_as_they_stand(hour: FirstHour) -> None:
    """With the name of a transaction that is there."""
    (first, *_) = hour.shell("txresolver list -o jsonl").stdout.splitlines()
    row = json.loads(first)
    place = f"{row['queue']}:{row['offset']}"
    commands = [line for line in lines_with(LEDGER, "txresolver ") if line[0] == "t"]
    assert len(commands) == 11
    for line in commands:
        there = line.replace("2:17", place).replace("4f1c9a", row["transaction_id"])
        asked = hour.shell(there.partition(" | jq")[0])
        assert asked.returncode == 0, there + asked.stderr
    program, _ = blocks(LEDGER, "python")
    (hour.folder / "ask.py").write_text(program.replace("2:17", place))
    asked = hour.shell("python ask.py")
    assert asked.returncode == 0, asked.stderr


def test_the_shell_of_the_page_on_clusters_runs_the_sql_as_it_stands(hour: FirstHour) -> None:
    """With the jars that are there, in place of the package that would have to be fetched."""
    _, shell = blocks(CLUSTER, "sh")
    jars = ",".join(map(str, spark_jars()))
    here = re.sub(r"--packages \S+", f"--jars {jars}", shell.rstrip())
    _, latency = blocks(OPERATING, "sql")
    shown = hour.shell(f"{here} -e {shlex.quote(latency)}")
    assert shown.returncode == 0, shown.stderr[-3_000:]
    assert "END\t" in shown.stdout


def test_the_audits_commands_run_as_they_stand(hour: FirstHour) -> None:
    lines = lines_with(AUDIT, "txresolver audit")
    assert lines == lines_with(section(OPERATING, "## The audit"), "txresolver audit")
    for line in lines:
        audited = hour.shell(line)
        assert audited.returncode == 0, audited.stdout + audited.stderr
        assert audited.stderr == ""


def test_the_next_start_has_the_same_port_and_quiet_has_two_lines(hour: FirstHour) -> None:
    """Also where the shell has exported the address for the producers."""
    address = hour.steps["a producer's address"].partition("=")[2]
    hour.up.process.terminate()
    assert hour.up.exit_code() == 0
    log = hour.folder / "quiet.log"
    exported = {"TXRESOLVER_BOOTSTRAP_SERVERS": address}
    with command("up", "--quiet", log=log, cwd=hour.folder, env=exported) as up:
        up.until_said("ready: ")
        first, second = up.output().splitlines()
    assert first == f"delivering: bootstrap={address} home=.txresolver"
    assert second == f"ready: bootstrap={address} home=.txresolver"
