"""The commands that read the ledger, without a JVM: `status`, `list`, `show`, `why` and others."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from ..errors import LedgerError, SettingsError, how_to_install
from ..protocol.record import printable
from ..settings import load_for_command
from .options import HOME, ConfigOption, HomeOption, SetOption
from .rows import Output, write

if TYPE_CHECKING:
    from ..views import Filter, Ledger

#: Rows that people are shown, and the longest age.
_SHOWN, _OLDEST = 50, timedelta(days=36_500)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

TablesOption = Annotated[
    Optional[str],  # noqa: UP045 - typer reads it when the module is loaded, also on 3.10
    typer.Option("--tables", help="The folder or URI of the Delta tables; HOME/tables otherwise."),
]
AtOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--at", metavar="TIME", help="As it was: what had landed by then."),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="The form of the rows.")]
GroupOption = Annotated[Optional[str], typer.Option(help="Of this producer group.")]  # noqa: UP045
TopicOption = Annotated[Optional[str], typer.Option(help="For this real topic.")]  # noqa: UP045
SinceOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="TIME", help="From this time on: ISO 8601 (UTC), or an age such as 90s."),
]
UntilOption = Annotated[Optional[str], typer.Option(metavar="TIME", help="Before this time.")]  # noqa: UP045
OlderOption = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="AGE", help="Stored at least so long ago, such as 90s, 5m, 2h, 1d."),
]
LimitOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="Most rows: 50 for people, all for programs, unless given."),
]
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A transaction id, its beginning, or queue:offset.")
]


def status(
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    group: GroupOption = None,
    topic: TopicOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Show how many transactions have each status."""
    chosen = filter_of(group=group, topic=topic, since=since, until=until)
    rows = opened(home, tables, as_of).statuses(chosen).to_pylist()
    columns = ("status", "count", "first_stored_at", "last_stored_at")
    write(rows, columns, output, "No transaction matches.")


def list_(
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    group: GroupOption = None,
    topic: TopicOption = None,
    status: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="PENDING, PARKED, COMMIT, ROLLBACK, DISCARD or UNDELIVERABLE."),
    ] = None,
    pending: Annotated[
        bool, typer.Option("--pending", help="Those without an outcome, oldest first.")
    ] = False,
    older: OlderOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    output: OutputOption = Output.text,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006 - typer copies it
) -> None:
    """List transactions, newest first; with --pending those without an outcome, oldest first."""
    upper = status.upper() if status else None
    chosen = filter_of(
        group=group,
        topic=topic,
        status=upper,
        older=older,
        since=since,
        until=until,
        limit=_most(limit, output),
    )
    ledger = opened(home, tables, as_of, config, assignments)
    transactions = ledger.pending(chosen) if pending else ledger.transactions(chosen)
    rows = [{"id": f"{row['queue']}:{row['offset']}", **row} for row in transactions.to_pylist()]
    last = ("checks", "next_check_at") if pending else ("decided_at", "checks")
    columns = ("id", "transaction_id", "group", "topic", "status", "stored_at", *last)
    write(rows, columns, output, "No transaction matches.")


def show(
    id_: IdArgument,
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    body: Annotated[bool, typer.Option("--body", help="Show key, value and headers too.")] = False,
    output: OutputOption = Output.text,
) -> None:
    """Show all that befell one transaction, in order, with the place of each record."""
    ledger = opened(home, tables, as_of)
    from ..views.why import place_of

    half_id = ledger.find(id_)
    rows = [{"place": place_of(row), **row} for row in ledger.timeline(half_id).to_pylist()]
    stored = next(row for row in rows if row["event"] == "half")
    if body:
        for name, value in ledger.body(half_id).to_pylist()[0].items():
            if name in ("key", "value", "headers"):
                stored[name] = value
    if output is Output.text:
        typer.echo(f"transaction {printable(str(stored['transaction_id']))}, half {half_id}")
    columns = ["at", "event", "word", "detail", "checks", "place"]
    write(rows, columns, output, "Nothing has landed.")
    if body and output is Output.text:
        from .rows import as_text

        for name in ("key", "value", "headers"):
            typer.echo(f"{name}: {as_text(stored[name])}")


def why(
    id_: IdArgument,
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    config: ConfigOption = None,
    assignments: SetOption = [],  # noqa: B006
) -> None:
    """Say in sentences why a transaction has its status, with the records that prove it."""
    from ..views.why import sentences

    ledger = opened(home, tables, as_of, config, assignments)
    half_id = ledger.find(id_)
    events = ledger.timeline(half_id).to_pylist()
    for sentence in sentences(events, ledger.pending_row(half_id, events)):
        typer.echo(printable(sentence))


def failures(
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    group: GroupOption = None,
    topic: TopicOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Show what was discarded, undeliverable or refused, by reason and place."""
    most = _most(limit, output)
    chosen = filter_of(group=group, topic=topic, since=since, until=until, limit=most)
    rows = opened(home, tables, as_of).failures(chosen).to_pylist()
    columns = ("reason", "place", "group", "count", "first_at", "last_at", "example")
    write(rows, columns, output, "Nothing was discarded or refused.")


def groups(
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    group: GroupOption = None,
    limit: LimitOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Show each producer group: what is pending and unanswered, and when it last answered."""
    chosen = filter_of(group=group, limit=_most(limit, output))
    rows = opened(home, tables, as_of).groups(chosen).to_pylist()
    columns = ("group", "pending", "parked", "unanswered", "oldest_pending_at", "last_answer_at")
    write(rows, columns, output, "No group matches.")


def diff(
    then: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601 (UTC), or an age: 1h.")],
    home: HomeOption = HOME,
    tables: TablesOption = None,
    as_of: AtOption = None,
    group: GroupOption = None,
    topic: TopicOption = None,
    limit: LimitOption = None,
    output: OutputOption = Output.text,
) -> None:
    """Show the transactions whose status is another than it was at a time."""
    ledger = opened(home, tables, as_of)
    chosen = filter_of(group=group, topic=topic, limit=_most(limit, output))
    changes = ledger.diff(ledger.as_of(_time(then)), chosen)
    rows = [{"id": f"{row['queue']}:{row['offset']}", **row} for row in changes.to_pylist()]
    columns = ("id", "transaction_id", "group", "topic", "before", "after", "at")
    write(rows, columns, output, "No status has changed.")


def opened(
    home: Path,
    tables: str | None,
    as_of: str | None,
    config: Path | None = None,
    assignments: list[str] | None = None,
) -> Ledger:
    """Open the ledger of a command's options."""
    # Imported late: a command that asks no table does without deltalake.
    try:
        from ..views import Ledger
    except ModuleNotFoundError as missing:
        raise LedgerError(
            f"the ledger needs {missing.name}",
            remedy=f"install it with {how_to_install('ledger')}",
        ) from None

    settings = load_for_command(config, assignments or [])
    moment = None if as_of is None else _time(as_of)
    return Ledger(home, tables=tables, settings=settings, at=moment)


def filter_of(**options: Any) -> Filter:
    """Return the filter of a command's options; times are read, and None leaves one out."""
    from ..views import Filter

    for name in ("since", "until"):
        if options.get(name) is not None:
            options[name] = _time(options[name])
    if options.get("older") is not None:
        options["older"] = _age(options["older"])
    return Filter(**options)


def _time(written: str) -> datetime:
    """Read a time in ISO 8601, in UTC unless it has a zone, or an age before now."""
    try:
        return datetime.now(timezone.utc) - _age(written)
    except SettingsError:
        pass
    try:
        time = datetime.fromisoformat(written.replace("Z", "+00:00"))
    except ValueError:
        raise SettingsError(
            f"{written!r} is no time",
            remedy="give one such as 2026-01-31T12:00:00, or an age such as 5m",
        ) from None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def _age(written: str) -> timedelta:
    read = re.fullmatch(r"([0-9]{1,6})([smhd])", written)
    age = timedelta(**{_UNITS[read[2]]: int(read[1])}) if read else None
    if age is None or age > _OLDEST:
        raise SettingsError(
            f"{written!r} is no age", remedy="give one such as 90s, 5m, 2h or 1d, a century at most"
        )
    return age


def _most(limit: int | None, output: Output) -> int | None:
    """Return the most rows: people are shown 50, and programs get all, unless told otherwise."""
    return _SHOWN if limit is None and output is Output.text else limit
