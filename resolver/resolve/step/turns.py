"""Turns: which end of a batch ends each half, and which ends come before and after it.

`judge.py` finds them by columns. `waiting.py` corrects them for halves of which an end waits.
"""

from __future__ import annotations

from dataclasses import dataclass

from .op_elements import Array, Ends


@dataclass
class Turns:
    """Elements by their places, and what decides whose turn it is to end a half.

    - `valid`: ends that count when their turn comes.
    - `gives_up`: the producer gives up to commit the half fast.
    - `delivered`: the turn of these comes at once.
    - `at_once`: the turn of these comes at once unless an end waits already.
    - `winners`: the places of the ends that end their halves, in order.
    - `after`: the place of the end after which an element is judged; -1 if it meets a pending half.
    - `overtaken`: ends that were to wait, and whose half a delivered op behind them has ended.
    """

    ends: Ends
    row: Array
    valid: Array
    gives_up: Array
    delivered: Array
    at_once: Array
    winners: Array
    after: Array
    overtaken: Array
