"""A rebuild's end offsets are proved: a leader that was cut off reports the end of before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer

from resolver.broker import Broker
from resolver.errors import ResolverError
from resolver.resolve.rebuild import rebuild_ends
from resolver.settings import Settings

from .kafka_proxy import INIT_PRODUCER_ID, PRODUCE, Fate
from .network import Network
from .real_topic import values

#: Outcomes that a batch of the network has.
BATCH = 10


@pytest.fixture
def network(kafka: Broker, prefix: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """A batch was delivered; a step of a proof has three seconds."""
    monkeypatch.setattr("resolver.resolve.proven_ends._STEP_SECONDS", 3.0)
    with closing(Network(kafka, prefix)) as network, closing(network.delivery()) as delivery:
        delivery.start(is_new=True)
        delivery.deliver(0, network.batch(0))
        yield network


def test_no_end_comes_from_a_leader_that_was_cut_off(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes behind its end would be missed, and their messages delivered again."""

    class CutOff(Consumer):
        def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
            return 0, 0

    monkeypatch.setattr("resolver.resolve.rebuild.Consumer", CutOff)
    _assert_proved(network, network.settings)


def test_a_client_whose_records_nobody_takes_is_replaced(
    network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    """As one that stays with a leader that was cut off."""
    clients: list[bytes] = []

    def judge(request: int, frame: bytes) -> Fate:
        if request == INIT_PRODUCER_ID:
            clients.append(frame)
        lost = request == PRODUCE and len(clients) == 1
        return Fate.LOSE_REQUEST if lost else Fate.FORWARD

    network.judge = judge
    _assert_proved(network, _through_the_proxy(network))
    assert f"no leader acknowledges a record: partition 0 of {network.names.half}" in caplog.text


def test_a_rebuild_is_refused_where_no_leader_takes_records(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None could prove that it has all outcomes."""
    monkeypatch.setattr("resolver.resolve.proven_ends._ALL_SECONDS", 0.0)
    network.judge = lambda request, _: Fate.LOSE_REQUEST if request == PRODUCE else Fate.FORWARD
    with pytest.raises(ResolverError, match="can't be proved"):
        rebuild_ends(_through_the_proxy(network))


def _assert_proved(network: Network, settings: Settings) -> None:
    names = network.names
    ends = rebuild_ends(settings)
    assert ends[names.resolution]["0"] >= BATCH
    assert ends[names.half].keys() == {"0"}
    # No reader sees the records that prove it.
    assert len(values(network.settings, names.resolution)) == BATCH
    assert values(network.settings, names.half) == []


def _through_the_proxy(network: Network) -> Settings:
    return replace(network.settings, bootstrap_servers=network.proxy.address)
