"""The configurations of docs/models/fast.pml: the ones that hold, and a fault for each rule."""

from __future__ import annotations

from functools import partial

from .case import MODELS, Case

_case = partial(Case, MODELS / "fast.pml")

#: Two halves of one id: a transaction of F may follow another.
TWO = {"HALVES": 2}
#: As few runs as a second transaction of F needs.
_NEXT = {**TWO, "TIME_OUTS": 0}
#: Room for more records of an op partition.
_LONG = {"LOG": 16}
#: All who may act on one half.
_ALL = {
    **_LONG,
    "AGENTS": 2,
    "DISCARDS": 1,
    "OPERATORS": 1,
    "OLD_RESOLVERS": 1,
    "OTHER_PROCESSES": 1,
    "SLOW_LOCALS": 1,
}
_ALONE = "alone is covered for by another rule"

HOLDS = (
    _case("fast: one half", {}),
    _case("fast: two agents, and silent ones", {"AGENTS": 2, "DISCARDS": 1}),
    _case("fast: an operator", {"OPERATORS": 1}),
    _case("fast: a slow local transaction", {"SLOW_LOCALS": 1}),
    _case("fast: another process of the group", {"OTHER_PROCESSES": 1}),
    _case("fast: an old resolver", {"OLD_RESOLVERS": 1}),
    _case("fast: clocks that disagree", {"SKEWED": 1, "DISCARDS": 1}),
    _case("fast: a forged record", {"FORGERS": 1}),
    _case("fast: a lost op", {"LOSSES": 1}),
    _case("fast: a rebuild", {"REBUILDS": 1}),
    _case("fast: nothing times out", {"TIME_OUTS": 0}),
    _case("fast: no fast commit after a check", {"REACH": 6}),
    # Rules that another rule covers for. docs/design.md says which one.
    _case("fast: CHECKS_WAIT " + _ALONE, {"CHECKS_WAIT": 0}),
    _case("fast: ANSWERS_WAIT " + _ALONE, {"ANSWERS_WAIT": 0}),
    _case("fast: PLAIN_WAITS " + _ALONE, {"PLAIN_WAITS": 0}),
    _case("fast: STOP_FIRST " + _ALONE, {"STOP_FIRST": 0}),
    _case("fast: GIVE_UP_ID " + _ALONE, {"GIVE_UP_ID": 0}),
    _case("fast: FENCE_FIRST " + _ALONE, {"OTHER_PROCESSES": 1, "FENCE_FIRST": 0}),
    _case("fast: READ_BACK " + _ALONE, {"READ_BACK": 0, "DISCARDS": 1}),
    _case("fast: WAIT_FOR_MARKERS " + _ALONE, {"WAIT_FOR_MARKERS": 0}),
)

#: Minutes, millions of states.
LARGE = (
    _case("large: two halves", TWO),
    _case("large: two halves, late EndTxn", {**TWO, "LATE_END_TXNS": 1}),
    _case("large: two halves, two queues", {**TWO, "QUEUES": 2}),
    _case("large: two halves, two ids", {**TWO, "IDS": 2}),
    _case("large: one half, all who act", _ALL),
    _case("large: a rebuild, an operator", {**_LONG, "REBUILDS": 1, "OPERATORS": 1}),
)

_TWICE, _WRONG = "two messages", "a message of no commit"
_UNSEEN = "a commit without its message"
FAULTS = (
    # The model reaches these ends: it holds not because nothing happens in it.
    _case("fast: reaches fast", {"REACH": 1}, "a fast commit"),
    _case("fast: reaches commit by check", {"REACH": 2}, "a commit by check"),
    _case("fast: reaches rollback by check", {"REACH": 3}, "a rollback by check"),
    _case("fast: reaches plain commit", {"REACH": 4}, "a plain commit"),
    _case("fast: reaches discard", {"REACH": 5, "DISCARDS": 1}, "a discard"),
    # The producer's rules.
    _case("INITIALISE_ONCE", {}, _TWICE),
    _case("OWN_ID", {"IDS": 2}, _TWICE),
    _case("STOP_FIRST", {"PLAIN_WAITS": 0}, _TWICE),
    _case("DROP_AFTER_SLOW_COMMIT", {**_NEXT, "LATE_END_TXNS": 1}, _UNSEEN),
    _case("FENCE_FIRST", {"OTHER_PROCESSES": 1, "PLAIN_WAITS": 0}, _TWICE),
    # The resolver's.
    _case("CHECKS_WAIT", {"ANSWERS_WAIT": 0}, _TWICE),
    _case("CHECKS_WAIT", {"DISCARDS": 1}, _WRONG),
    _case("REVOKE", {}, "it never ends"),
    _case("READ_BACK", {"OPERATORS": 1}, _TWICE),
    _case("READ_BACK", {"OLD_RESOLVERS": 1, "SKEWED": 1, "DISCARDS": 1}, _WRONG),
    _case("RECORD_LAST", {"OPERATORS": 1}, _TWICE),
    _case("REPEAT_CONCURRENT", TWO, _TWICE),
    _case("PROOF", {"FORGERS": 1}, _TWICE),
    _case("OPERATOR_WAITS", {"OPERATORS": 1}, _TWICE),
    _case("NEVER_LATE", {}, _TWICE),
    _case("WAIT_FOR_HALF", {}, _TWICE),
    _case("FREE_STUCK", {"TIME_OUTS": 0}, "it never ends"),
    _case("HOLD_LOST", {"LOSSES": 1}, _TWICE),
    _case("ONE_WRITER", {"OLD_RESOLVERS": 1}, _TWICE),
)
