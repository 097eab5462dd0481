"""Records are gone from Kafka before the resolver reads them: it ends, and says how to go on."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_END, TopicPartition

from resolver.errors import ResolverError
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.world import World

from .conftest import Resolving


def test_an_error_of_a_spark_worker_has_its_remedy(world: World, resolving: Resolving) -> None:
    with resolving():
        world.end(world.send_half())
        world.resolutions(1)
    world.send_half()
    place = TopicPartition(world.names.half, 0, OFFSET_END)
    world.admin.delete_records([place])[place].result(PATIENCE_SECONDS)
    with pytest.raises(ResolverError) as ended, resolving() as job:
        wait_until(lambda: job.wait(0.1))
    assert ended.value.message.startswith("the query resolve ended: partition 0 of")
    assert ended.value.remedy == (
        "start with --rebuild, on a new checkpoint, to go on with what is left"
    )
