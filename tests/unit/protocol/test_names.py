"""Which names Kafka takes, and which are the resolver's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resolver.protocol import Names, legal_group, legal_topic


@given(st.text(max_size=300))
def test_legal_names_are_kafkas(name: str) -> None:
    characters = set(name) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
    )
    assert legal_topic(name) == (characters and 1 <= len(name) <= 249 and name not in (".", ".."))
    assert legal_group(name) == (characters and 1 <= len(name) <= 200)


def test_topics_follow_from_the_prefix() -> None:
    names = Names("dev.")
    assert [names.half, names.op, names.resolution, names.discarded, names.quarantine] == [
        "dev.half", "dev.op", "dev.resolution", "dev.discarded", "dev.quarantine",
    ]  # fmt: skip
    assert (names.marker, names.check("orders")) == ("dev.marker", "dev.check.orders")
    assert names.parked == "dev.parked"


def test_each_generation_has_a_transactional_id() -> None:
    ids = [Names("dev.").transactional_id(generation) for generation in range(3)]
    assert ids == ["dev.resolver", "dev.resolver-1", "dev.resolver-2"]
