"""The commands by which an operator acts: `settle`, `resume`, `ask`, `replay`, and their log.

`acting.py` has what they do in common.
"""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from ..errors import SettingsError
from ..protocol import Act, TransactionStatus
from .acting import Access, Request, acting
from .ledger import OutputOption, TablesOption, opened
from .options import HOME, BesideOption, with_options
from .rows import Output, write

#: Time in seconds that commands wait for the resolver's outcomes, unless told otherwise.
_WAIT_SECONDS = 30.0

WaitOption = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, help="How long settle waits for the outcomes."),
]


@with_options
def settle(
    request: Request,
    access: Access,
    commit: Annotated[bool, typer.Option("--commit", help="Deliver their messages.")] = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Drop their messages.")] = False,
    wait: WaitOption = _WAIT_SECONDS,
) -> None:
    """End pending transactions by hand, late or not."""
    if commit == rollback:
        raise SettingsError("give either --commit or --rollback")
    state = TransactionStatus.COMMIT_MESSAGE if commit else TransactionStatus.ROLLBACK_MESSAGE
    with acting(access, wait) as operator:
        operator.do(Act.SETTLE, request, detail=state.value)


@with_options
def resume(
    request: Request,
    access: Access,
    status: Annotated[
        Optional[str],  # noqa: UP045 - typer reads it when the module is loaded, also on 3.10
        typer.Option(help="With this status, of those to which the act applies."),
    ] = None,
) -> None:
    """Bring discarded or undeliverable messages back, each once: as new halves, which are checked.

    The new half names the old one in its header RESUMES.
    """
    with acting(access) as operator:
        operator.do(Act.RESUME, request, status=status.upper() if status else None)


@with_options
def ask(request: Request, access: Access) -> None:
    """Ask about pending transactions now, whatever is left of the wait for their next check."""
    with acting(access) as operator:
        operator.do(Act.ASK, request)


@with_options
def replay(
    request: Request,
    access: Access,
    to: Annotated[str, typer.Option(metavar="TOPIC", help="Where the messages go.")],
) -> None:
    """Write committed messages to a topic once more, from the ledger, in the order of their ends.

    They have the headers by which a consumer knows them: UNIQ_KEY and HALF_OFFSET.
    """
    with acting(access) as operator:
        operator.refuse_target(to)
        operator.do(Act.REPLAY, request, detail=to)


def log(
    home: BesideOption = HOME,
    tables: TablesOption = None,
    output: OutputOption = Output.text,
) -> None:
    """List what operators have done, newest first; `hit` is empty until an operation is done."""
    from ..operations import OperationTable

    rows = OperationTable(opened(home, tables, None).tables).all()
    columns = ("operation_id", "begun_at", "act", "detail", "actor", "chosen", "hit", "reason")
    write(rows, columns, output, "No operator has acted.")


@with_options
def continue_(
    id_: Annotated[str, typer.Argument(metavar="OPERATION", help="Its id; `log` lists them.")],
    access: Access,
    wait: WaitOption = _WAIT_SECONDS,
) -> None:
    """Go on with an operation that was interrupted: what it has done is not done again."""
    with acting(access, wait) as operator:
        operator.go_on(id_)
