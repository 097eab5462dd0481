"""The kinds of worlds that groups of faults need, and the settings that all have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: A JVM that lives for seconds only does better without its second compiler. An audit takes more
#: than the 48 MB that Java then has for code, and would be interpreted from there on.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m -XX:+UseSerialGC"
#: Shortened, so that a round is quick: what is silent is asked after a second.
SHORTENED: Mapping[str, Any] = {
    "transaction_timeout_ms": 1_000,
    "transaction_check_interval_ms": 500,
    "check_backoff_max_ms": 1_000,
    "transaction_check_max": 4,
    "kafka_transaction_timeout_ms": 4_000,
    # Landing costs most. Only rounds that kill land or damage its files wait for it: for those
    # resolve's batches leave it some of the machine.
    "land_trigger_interval_ms": 5_000,
    "trigger_interval_ms": 500,
    "spark.driver.extraJavaOptions": _QUICK_JVM,
}
#: What a cluster needs. A batch's transaction outlives a leader's election, as it does by default.
_CLUSTERED: Mapping[str, Any] = {"replication_factor": 3, "kafka_transaction_timeout_ms": 300_000}


@dataclass(frozen=True)
class WorldKind:
    """The kind of a group's worlds: what is special about them."""

    #: Its disk is so small that it can be filled.
    small_disk: bool = False
    #: Kafka takes its time from a file.
    own_clock: bool = False
    #: A proxy stands between Kafka and its clients, except the campaign itself.
    proxied: bool = False
    #: Batches are delivered by `Delivery` itself, in this process: there is no Spark, nor a load.
    bare: bool = False
    #: Kafka has three nodes.
    cluster: bool = False
    #: Share of the transactions that are committed fast, 0 to 1.
    fast: float = 0.25

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the resolver and its agent are given."""
        return {**SHORTENED, **(_CLUSTERED if self.cluster else {})}
