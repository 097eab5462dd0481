"""Late requests, aimed at each window of the next transaction.

When a connection is lost, librdkafka silently repeats the requests that were not answered. All
transactions of a producer have one epoch. So Kafka can't tell a late request from one of the next
transaction.
"""

from __future__ import annotations

import random
from contextlib import AbstractContextManager

from ..fault import Done, Fault
from ..fault_error import FaultError
from ..world import World
from .bare import BareWorld
from .control import RuleInForce, Story
from .late import Moment
from .listeners import PRODUCERS, RESOLVER
from .rules import ANSWER, REQUEST, Selection

#: Requests that can tear a transaction, as was seen, and its other requests.
TEARING = ("EndTxn", "TxnOffsetCommit")
OTHERS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "Produce")
#: Moments in the transaction after the one whose request is late.
WINDOWS = {
    "between transactions": Moment(),
    "behind AddPartitionsToTxn": Moment("AddPartitionsToTxn", ANSWER),
    "among its records": Moment("Produce", REQUEST, 3),
    "before AddOffsetsToTxn": Moment("AddOffsetsToTxn", REQUEST),
    "behind AddOffsetsToTxn": Moment("AddOffsetsToTxn", ANSWER),
    "behind TxnOffsetCommit, records on their way": Moment(
        "TxnOffsetCommit", ANSWER, holding="Produce", holding_from=3
    ),
    "behind TxnOffsetCommit": Moment("TxnOffsetCommit", ANSWER),
    "behind its EndTxn": Moment("EndTxn", ANSWER),
}
#: Moment for a producer without transactions: behind three further requests of the same kind.
_BEHIND_OTHERS = Moment("Produce", ANSWER, 3, after="")
#: Number of batches after which each moment has come.
_BATCHES = 4


def late_in_bare(api: str, moment: Moment) -> Fault:
    """Return the fault of a late request, and of a crash after it that replays the last batch."""

    def fault(world: World, _chance: random.Random) -> Done:
        if not isinstance(world, BareWorld):
            raise AssertionError("this world has more than delivery")
        world.deliver()
        with _late(world, RESOLVER, api, moment) as rule:
            world.deliver()
            world.mark()
            for _ in range(_BATCHES):
                world.deliver()
                if rule.story.over:
                    break
        world.replay()
        world.deliver()
        return _done(rule.story)

    return fault


def late(api: str, moment: Moment) -> Fault:
    """Return the fault of a late request of the running resolver."""

    def fault(world: World, chance: random.Random) -> Done:
        world.pause(chance.uniform(0, 1))
        with _late(world, RESOLVER, api, moment) as rule:
            world.until(lambda: rule.story.over, "no request comes late")
            world.mark()
        return _done(rule.story)

    return fault


def late_half(world: World, chance: random.Random) -> Done:
    """Let what producers store come late; the repeat is stored before."""
    world.pause(chance.uniform(0, 1))
    with _late(world, PRODUCERS, "Produce", _BEHIND_OTHERS) as rule:
        world.until(lambda: rule.story.over, "no request comes late")
        world.mark()
    return _done(rule.story)


def _late(world: World, side: str, api: str, moment: Moment) -> AbstractContextManager[RuleInForce]:
    return world.control.rule("late", Selection(listener=side, apis=(api,)), moment=moment)


def _done(story: Story) -> Done:
    """Return what shows that a request came late; raises `FaultError` where none did."""
    if not story.over:
        raise FaultError(f"no request came late: {story.events}")
    repeated = f"{story.last_value('repeated')}, {story.last_value('repeated', 'error')}"
    answered = f"{story.last_value('answered')}, {story.last_value('answered', 'error')}"
    proof = f"repeated as {repeated}; late was {answered}"
    return Done(f"handed on {story.last_value('handed on', 'moment')}", proof)
