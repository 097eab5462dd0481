"""`txresolver up` where land can't go on: it says what to do, and that works."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from tests.support.commands import command
from tests.support.patience import PATIENCE_SECONDS
from tests.support.world import World


def test_a_deleted_check_topic_stops_it_with_the_way_out(world: World, tmp_path: Path) -> None:
    home = tmp_path / "home"
    checkpoint = home / "checkpoints" / "land"
    topic = world.names.check("retired")
    world.make_topic(topic, 1, **{"max.message.bytes": "2000000"})
    up = [
        *("up", f"--home={home}", f"--bootstrap-servers={world.bootstrap}"),
        *(f"--set=topic_prefix={world.prefix}", "--set=queues=2"),
        "--set=land_trigger_interval_ms=500",
        # How long Java's client asks for a topic that is gone.
        "--set=spark.kafka.request.timeout.ms=5000",
        "--set=spark.kafka.default.api.timeout.ms=5000",
    ]
    with command(*up, log=tmp_path / "first.log") as first:
        first.until_said("ready:")
        world.end(world.send_half())
        world.resolutions(1)
        world.admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
        assert first.exit_code() == 1
        last = first.output().splitlines()[-1]
        assert last.startswith("error: land stopped, as a topic or records"), first.output()
        assert f"{topic}-0" in last
        assert f"remove land's checkpoint, the folder {checkpoint}, and start again" in last

    shutil.rmtree(checkpoint)
    with command(*up, log=tmp_path / "second.log") as second:
        second.until_said("ready:")
        world.end(world.send_half())
        world.resolutions(2)
        second.signal(signal.SIGTERM)
        assert second.exit_code() == 0, second.output()
