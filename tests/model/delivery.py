"""The configurations of docs/models/delivery.pml: the ones that hold, and a fault for each rule."""

from __future__ import annotations

from functools import partial

from .case import MODELS, Case

_case = partial(Case, MODELS / "delivery.pml")

#: A crash or a takeover, one late request.
CRASH = {"SWITCHES": 1, "LATE": 1, "TIMEOUTS": 0}
#: Besides, the instance that was replaced wakes up.
ZOMBIE = {**CRASH, "SWITCHES": 2}
#: Switches that make line one and line two ineffective.
NO_LINE_ONE = {
    "DROP_AFTER_SLOW_OFFSETS": 0,
    "DROP_AFTER_SLOW_COMMIT": 0,
    "DROP_AFTER_SLOW_CLAIM": 0,
    "DROP_AFTER_SLOW_KEEP_ALIVE": 0,
    "WHOLE": 0,
}
NO_LINE_TWO = {
    "COMPARE_AFTER_FAILURE": 0,
    "COMPARE_AFTER_INVALID_STATE": 0,
    "COMPARE_AT_REPLAY": 0,
}


HOLDS = (
    _case("both lines", ZOMBIE),
    _case("line one alone", ZOMBIE | NO_LINE_TWO),
    _case("line two alone", ZOMBIE | NO_LINE_ONE),
    _case("a transaction times out", CRASH | {"TIMEOUTS": 1, "LATE": 0}),
    _case("the marker is kept alive", CRASH | {"KEEP_ALIVES": 1, "BATCHES": 1}),
    _case("a replay decides otherwise", CRASH | {"CHANGED": 1}),
    _case("a checkpoint from a backup", CRASH | {"BACKUP": 1}),
)

#: Minutes; docs/design.md has the states and times.
LARGE = (
    _case("large: zombies wake twice", {"SWITCHES": 3, "TIMEOUTS": 1, "LATE": 1}),
    _case("large: two late requests", {"SWITCHES": 2, "TIMEOUTS": 0, "LATE": 2}),
    _case("large: line one alone", {"SWITCHES": 1, "TIMEOUTS": 0, "LATE": 2} | NO_LINE_TWO),
    _case("large: line two alone", {"SWITCHES": 1, "TIMEOUTS": 0, "LATE": 2} | NO_LINE_ONE),
)

_BEFORE = NO_LINE_ONE | NO_LINE_TWO | {"FLUSH_FIRST": 0}
_HALF, _OTHER = "half a batch", "not the marker's"
FAULTS = (
    _case("before", CRASH | _BEFORE, "twice"),
    _case("no line", CRASH | NO_LINE_ONE | NO_LINE_TWO, "twice"),
    _case("DROP_AFTER_SLOW_OFFSETS", CRASH, _OTHER),
    _case("DROP_AFTER_SLOW_COMMIT", CRASH, _OTHER),
    _case("DROP_AFTER_SLOW_CLAIM", CRASH, _OTHER),
    _case("DROP_AFTER_SLOW_KEEP_ALIVE", CRASH | {"KEEP_ALIVES": 1}, _OTHER),
    _case("COMPARE_AFTER_FAILURE", CRASH | NO_LINE_ONE | {"TIMEOUTS": 1}, "twice"),
    _case("COMPARE_AFTER_INVALID_STATE", CRASH | NO_LINE_ONE, "twice"),
    _case("COMPARE_AT_REPLAY", CRASH | NO_LINE_ONE, "twice"),
    _case("PLANNED_AFTER_CLAIM", CRASH | NO_LINE_ONE | {"SWITCHES": 3}, "twice"),
    _case("FLUSH_FIRST", CRASH | NO_LINE_ONE, "an outcome alone"),
    _case("NEVER_ABORT", CRASH, _OTHER),
    _case("INIT_BEFORE_READ", CRASH | NO_LINE_TWO, "twice"),
    _case("LOOK_AFTER_FAILURE", CRASH | NO_LINE_TWO, "twice"),
    _case("LOOK_FOR_OWNER", ZOMBIE | NO_LINE_TWO, "twice"),
    _case("CLAIM", ZOMBIE | NO_LINE_TWO, "stuck"),
    _case("SKIP_DELIVERED", CRASH | NO_LINE_TWO, "twice"),
    _case("CHECK_DIGEST", CRASH | {"CHANGED": 1}, "decided otherwise"),
    _case("CHECK_ORDER", CRASH | NO_LINE_TWO | {"BACKUP": 1}, "twice"),
    _case("VERIFY", CRASH, "stuck"),
    _case("IDEMPOTENT", CRASH, "twice"),
)
