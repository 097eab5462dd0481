"""An operator's command at work: what it hits, the question before it acts, and its end."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional

import typer

from ..errors import ActRefused, SettingsError
from ..protocol import Act
from ..settings import Settings, load_for_command
from .ledger import (
    GroupOption,
    OlderOption,
    SinceOption,
    TablesOption,
    TopicOption,
    UntilOption,
    filter_of,
    opened,
)
from .options import HOME, BesideOption, ConfigOption, ServersOption, SetOption, with_servers
from .rows import Output, write
from .terminal import terminal

if TYPE_CHECKING:
    from ..operations import Choice, Operation, Taken
    from ..views import Ledger

#: Transactions that a dry run shows to people.
_SHOWN = 50


class Access(NamedTuple):
    """Options of a command that acts: its ledger, and the brokers."""

    home: BesideOption = HOME
    tables: TablesOption = None
    bootstrap_servers: ServersOption = None
    config: ConfigOption = None
    assignments: SetOption = []  # noqa: RUF012 - typer copies it


class Request(NamedTuple):
    """Options of a command that acts: which transactions, who acts, and why."""

    reason: Annotated[str, typer.Option(help="Why; it is kept in the table `operation`.")]
    ids: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads it when the module is loaded, also on 3.10
        typer.Argument(
            metavar="[ID]...", help="Transaction ids, their beginnings, or queue:offset."
        ),
    ] = None
    group: GroupOption = None
    topic: TopicOption = None
    older: OlderOption = None
    since: SinceOption = None
    until: UntilOption = None
    limit: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="At most this many; all if not given."),
    ] = None
    actor: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Who acts; the user of this machine if not given."),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be hit, and do nothing.")
    ] = False
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether the number is right.")] = (
        False
    )


@contextmanager
def acting(access: Access, wait_seconds: float = 0.0) -> Iterator[Acting]:
    """Open the ledger and reach the brokers; say what an error of Kafka means for the operator."""
    from confluent_kafka import KafkaException

    from ..kafka.reach import await_broker
    from ..operations import refuse_other_topics
    from ..operations.failure import explained

    options = {"bootstrap_servers": access.bootstrap_servers}
    settings = load_for_command(access.config, access.assignments, options)
    if access.tables is not None and not settings.bootstrap_servers:
        raise SettingsError(
            "--tables names a ledger, and no brokers are given",
            remedy="give --bootstrap-servers of the Kafka that it has landed from",
        )
    settings = with_servers(settings, access.home)
    with terminal(access.home):
        ledger = opened(access.home, access.tables, None, access.config, access.assignments)
        refuse_other_topics(ledger, settings)
        await_broker(settings)
        try:
            yield Acting(ledger, settings, wait_seconds)
        except KafkaException as error:
            raise explained(
                error, "Kafka refuses", "`txresolver log` has what was begun"
            ) from error


class Acting:
    """Does what an operator requests, on a ledger and its brokers."""

    def __init__(self, ledger: Ledger, settings: Settings, wait_seconds: float) -> None:
        from ..operations import OperationTable

        self._wait_seconds = wait_seconds
        self._ledger = ledger
        self._settings = settings
        self._table = OperationTable(ledger.tables)

    def do(self, act: Act, request: Request, detail: str = "", status: str | None = None) -> None:
        """Hit the transactions that a request chooses, unless it is a dry run."""
        from ..operations import Operation

        choice = self._choose(act, request, status)
        actor = getpass.getuser() if request.actor is None else request.actor
        now = datetime.now(timezone.utc)
        operation = Operation.begin(act, detail, actor, request.reason, choice.halves, now)
        for why, count in choice.left_out.items():
            typer.echo(f"left out: {count}, {why}")
        if request.dry_run:
            _show(operation, choice)
            _tell_lines(self._remains(operation))
        elif not choice.rows:
            typer.echo(f"{act.value}: no transaction is chosen, and nothing was done")
        else:
            if not request.yes and not choice.is_named_whole(request.ids or []):
                _confirm(operation)
            self._begin(operation)

    def go_on(self, id_: str) -> None:
        """Go on with an operation that was interrupted."""
        operation, hit = self._table.find(id_)
        if hit is None:
            self._run(operation)
        else:
            typer.echo(f"operation {id_} is done: it has hit {hit} transactions")

    def refuse_target(self, topic: str) -> None:
        """Raise `ActRefused` where nothing may be replayed to."""
        if topic.startswith((self._settings.topic_prefix, "__")):
            raise ActRefused(
                f"--to is {topic!r}; topics under {self._settings.topic_prefix!r} and Kafka's own "
                "are not for messages",
                remedy="give a topic of yours",
            )

    def _choose(self, act: Act, request: Request, status: str | None) -> Choice:
        from ..operations import choose

        chosen = filter_of(
            group=request.group,
            topic=request.topic,
            status=status,
            older=request.older,
            since=request.since,
            until=request.until,
            limit=request.limit,
        )
        return choose(self._ledger, act, request.ids or [], chosen, self._taken(act))

    def _taken(self, act: Act) -> dict[str, Taken]:
        """Return the messages that an act can't bring back or replay any more."""
        from ..operations import Taken

        if act not in (Act.RESUME, Act.REPLAY):
            return {}
        resumed = self._resumed() if act is Act.RESUME else {}
        erased = self._table.erased()
        return {half: Taken("resumed already", id_) for half, id_ in resumed.items()} | {
            half: Taken("erased", id_) for half, id_ in erased.items()
        }

    def _resumed(self) -> dict[str, str]:
        """Return the operation that has resumed each half."""
        from ..operations.claims import ClaimReader

        claims = ClaimReader(self._settings)
        try:
            claims.read()
        finally:
            claims.close()
        return claims.resumed

    def _begin(self, operation: Operation) -> None:
        self._table.begin(operation)
        typer.echo(
            f"operation {operation.id}: should it be interrupted, "
            f"`txresolver continue {operation.id}` goes on with it"
        )
        self._run(operation)

    def _run(self, operation: Operation) -> None:
        from ..operations import Erasure, Job, OutcomeReader

        outcome_reader = None
        if operation.act is Act.SETTLE:
            outcome_reader = OutcomeReader(self._settings, self._ledger)
        # Ask the ledger before: it has opened the tables with the files that go.
        stays, total = self._remains(operation), len(operation.halves)
        kind = Erasure if operation.act is Act.ERASE else Job
        job = kind(operation, self._ledger, self._settings)
        hit = job.run(lambda done: _tell(done, total))
        self._table.end(operation, hit, datetime.now(timezone.utc))
        typer.echo(f"{operation.act.value}: {hit} of {total} transactions")
        if job.left_out:
            ids = ", ".join(map(str, [*job.left_out][:_SHOWN]))
            typer.echo(f"left out: {len(job.left_out)}, whose records Kafka refuses: {ids}")
        if others := total - hit - len(job.left_out):
            typer.echo(f"{others} were resumed by another operation meanwhile")
        if outcome_reader is not None:
            outcomes = outcome_reader.of(operation.halves, self._wait_seconds)
            ends = Counter((end.outcome, end.source) for end in outcomes.values())
            _tell_outcomes(ends, total, self._wait_seconds)
        _tell_lines(stays)

    def _remains(self, operation: Operation) -> list[str]:
        """Return where messages are still to be found when they are erased, and until when."""
        from ..operations import remains

        if operation.act is not Act.ERASE or not operation.halves:
            return []
        return list(remains(operation, self._ledger, self._settings, self._table))


def _show(operation: Operation, choice: Choice) -> None:
    rows = [{"id": f"{row['queue']}:{row['offset']}", **row} for row in choice.rows]
    columns = ("id", "transaction_id", "group", "topic", "status", "stored_at")
    write(rows[:_SHOWN], columns, Output.text, "No transaction matches.")
    typer.echo(f"{operation.act.value}: {len(rows)} transactions would be hit; nothing was done")


def _confirm(operation: Operation) -> None:
    """Ask whether the number is right; where nobody can answer, it is not."""
    question = f"{operation.act.value} {len(operation.halves)} transactions?"
    if not sys.stdin.isatty():
        raise ActRefused(
            f"{question} Nobody can answer here", remedy="look with --dry-run, then give --yes"
        )
    if not typer.confirm(question):
        raise ActRefused("nothing was done")


def _tell_lines(lines: list[str]) -> None:
    for line in lines:
        typer.echo(line)


def _tell(done: int, total: int) -> None:
    print(f"{done} of {total}", flush=True)


def _tell_outcomes(ends: Counter[tuple[Any, Any]], total: int, seconds: float) -> None:
    for (outcome, source), count in sorted(ends.items()):
        typer.echo(f"{count} ended as {outcome.value}, by {source.value}")
    if missing := total - sum(ends.values()):
        typer.echo(
            f"{missing} have no outcome after {seconds:.0f} s: the resolver is away, or behind. "
            "`txresolver why` tells more"
        )
