"""The database against what was delivered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .orders import Content


@dataclass(frozen=True)
class Comparison:
    """Which transactions are not as they must be; `pending` is how many have no outcome yet."""

    placed: int
    right: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    changed: tuple[str, ...]
    ghosts: tuple[str, ...]
    given_up: tuple[str, ...]
    pending: int = 0

    @property
    def holds(self) -> bool:
        """Whether each placed order was delivered exactly once, bit for bit, and no other was."""
        faults = (self.lost, self.doubled, self.changed, self.ghosts, self.given_up)
        return self.right == self.placed and not any(faults) and not self.pending


def compare(
    placed: Mapping[str, Content],
    delivered: Mapping[str, Sequence[Content]],
    discarded: Iterable[str] = (),
    pending: int = 0,
) -> Comparison:
    """Compare the orders whose local transaction committed with the messages of the real topic.

    Both by transaction id, as are the `discarded` ones; a message that was placed and delivered
    several times counts as doubled, whatever it holds.
    """
    once = {one for one in placed if len(delivered.get(one, ())) == 1}
    right = {one for one in once if delivered[one][0] == placed[one]}
    return Comparison(
        placed=len(placed),
        right=len(right),
        lost=_listed(one for one in placed if not delivered.get(one)),
        doubled=_listed(one for one in delivered if len(delivered[one]) > 1),
        changed=_listed(once - right),
        ghosts=_listed(delivered.keys() - placed.keys()),
        given_up=_listed(placed.keys() & set(discarded)),
        pending=pending,
    )


def _listed(transactions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(transactions))
