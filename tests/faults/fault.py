"""What a fault is: something done to a world, which afterwards has all of its processes again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from .world import World


class Done(NamedTuple):
    """What was done, and what shows that it was."""

    what: str
    proof: str = ""


Fault = Callable[[World, random.Random], Done]
