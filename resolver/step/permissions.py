"""Which real topics a group may publish to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..patterns import ANY, matches


class Permissions(dict[tuple[str, str], str]):
    """Why a group may not publish to a topic, by (group, topic); empty where it may.

    Decided once for each pair that a batch has: halves are many, pairs are few.
    """

    def __init__(self, limits: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self._limits = limits

    def __missing__(self, pair: tuple[str, str]) -> str:
        self[pair] = refusal = self._refusal(*pair)
        return refusal

    def _refusal(self, group: str, topic: str) -> str:
        patterns = self._limits.get(group, self._limits.get(ANY))
        if patterns is None or any(matches(pattern, topic) for pattern in patterns):
            return ""
        return (
            f"group {group!r} may not publish to topic {topic}: its topics in the settings are "
            f"{', '.join(patterns) or 'none'}"
        )
