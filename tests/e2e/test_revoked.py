"""Halves whose producers deliver them, end to end: a resolver on a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException

from resolver.protocol import FAST_DELIVERY, StoredHalf
from tests.kafka.fast_producer import FastProducer
from tests.support.patience import FACTOR, PATIENCE_SECONDS
from tests.support.world import Sent, World, header

from .conftest import Resolving

#: On a busy machine a transaction may be open for long, and hold up the halves behind it.
PATIENT: dict[str, Any] = {"transaction_timeout_ms": 3_600_000, "stuck_ms": 60_000}


def producer_of(world: World) -> FastProducer:
    return FastProducer(world.options, world.names, world.group)


def sent(at: StoredHalf) -> Sent:
    return Sent(at.half, at.queue, at.offset, at.stored_at_ms)


@pytest.mark.gate
def test_what_its_producer_has_delivered_is_not_delivered_again(
    world: World, resolving: Resolving
) -> None:
    with resolving(**PATIENT):
        producer = producer_of(world)
        halves = [producer.half(world.real, queue) for queue in (0, 1, 0)]
        producer.commit(*halves)
        slow = world.send_half()
        world.end(slow)
        outcomes = world.resolutions(4)
    assert {said.outcome.value for said in outcomes} == {"COMMIT"}
    fast = {at.half.transaction_id for at in halves}
    assert {said.transaction_id for said in outcomes if said.delivery == FAST_DELIVERY} == fast
    assert len(world.committed(4)) == 4
    assert world.reader(world.names.quarantine).all() == []


@pytest.mark.gate
def test_a_producer_that_dies_in_its_transaction_is_revoked_and_the_half_checked(
    world: World, resolving: Resolving
) -> None:
    """Kafka would end the transaction after a quarter of an hour: later than any test waits."""
    with resolving():
        producer = producer_of(world)
        # On a busy machine its transaction takes a while to begin.
        at = producer.half(world.real, immunity_seconds=int(5 * FACTOR))
        producer.begin(at)
        (check,) = world.checks(1)
        assert header(check, "UNIQ_KEY") == at.half.transaction_id
        world.end(sent(at), from_check=True)
        (said,) = world.resolutions(1)
        with pytest.raises(KafkaException):
            producer.client.commit_transaction(PATIENCE_SECONDS)
    assert (said.outcome, said.source, said.delivery) == ("COMMIT", "CHECK", None)
    (message,) = world.committed(1)
    assert message.value() == at.half.body
    assert header(message, "FAST") is None


def test_a_plain_end_waits_until_its_producer_can_deliver_no_more(
    world: World, resolving: Resolving
) -> None:
    with resolving(**PATIENT):
        producer = producer_of(world)
        given_up, other = producer.half(world.real), producer.half(world.real)
        world.end(sent(given_up))
        (said,) = world.resolutions(1)
        with pytest.raises(KafkaException):
            producer.commit(other)
    assert (said.outcome, said.source, said.delivery) == ("COMMIT", "END", None)
    assert [message.value() for message in world.committed(1)] == [given_up.half.body]
