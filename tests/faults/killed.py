"""What shows that something was killed, and did not end by itself."""

from __future__ import annotations

import signal

from resolver.broker.recovery import needs_recovery

from .fault_error import FaultError
from .process import Victim
from .world import World

#: As a process says it of its child, and as a shell does.
_BY_KILL = (-signal.SIGKILL, 128 + signal.SIGKILL)


def see_alive(process: Victim) -> None:
    """See that it has not ended by itself."""
    if process.ended:
        raise FaultError(f"it ended before it was killed: {process.last_words}")


def see_killed(process: Victim) -> str:
    """See that it ended by kill -9; return how it ended."""
    if process.exit_status not in _BY_KILL:
        raise FaultError(f"not killed, it ended with {process.exit_status}: {process.last_words}")
    return f"exit code {process.exit_status}"


def see_dead(world: World, resolver: Victim, victim: str) -> None:
    """Count from now; return when it has ended, and if all of it was killed, all of it has.

    See too what it has left, unless Kafka is hit as well.
    """
    world.mark()
    world.until(lambda: resolver.ended, f"without its {victim} the resolver does not end")
    if victim == "all":
        resolver.end()
    if world.broker is not None:
        world.see_whole()


def see_cut_short(world: World) -> str:
    """See that Kafka had no time to end in order: what it leaves behind then is not there."""
    if not needs_recovery(world.broker_home):
        raise FaultError("Kafka was not killed: it has ended in order")
    return "no mark of a clean shutdown"
