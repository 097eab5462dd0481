"""The short form of `scripts/fuzz`: decoding and the step."""

from __future__ import annotations

import pytest
from fuzz.pure import fuzz


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_is_sent_each_refused_element_is_refused_once_and_the_others_end(
    seed: int,
) -> None:
    fuzz(6_000, seed)
