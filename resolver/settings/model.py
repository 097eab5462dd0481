"""`Settings`: every setting, its default, unit, bounds and meaning, in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import layers
from .definition import Definition, definitions_of, setting
from .groups import Group, check_groups
from .options import check_kafka, check_spark, masked
from .rules import check_rules

KAFKA = "Kafka"
TRANSACTIONS = "Transactions"
RESOLVE = "The resolve query"
LAND = "The land query"
KEEPING = "Keeping the tables"
PRODUCER = "Producer and agent"
WATCH = "Metrics and health"

_INT = 2**31 - 1
_DAY_MS = 86_400_000
_YEAR_HOURS = 8_760


@dataclass(frozen=True)
class Settings:
    """The effective settings. Frozen; make a changed one with `dataclasses.replace`.

    Four fields are tables, not single settings:

    - `kafka` has librdkafka's options for every client.
    - `spark` has Spark's own configuration and, as `kafka.*`, options of Spark's Java Kafka client.
    - `groups` has the rights of producer groups by name, with `*` for all others.
    - `origins` has the source of each value: "default", "file F", "env VAR" or "--set".

    Every way to make settings raises `SettingsError` for an illegal value.
    """

    bootstrap_servers: str = setting(
        "",
        "Kafka's brokers, host:port separated by commas; several, as one may be away or cut off. "
        "Empty: the embedded broker.",
        section=KAFKA,
    )
    topic_prefix: str = setting(
        "tx.",
        "What the names of the protocol's topics begin with.",
        section=KAFKA,
        rocketmq="namespace",
    )
    queues: int = setting(
        4,
        "Partitions of the half topic and of the op topic; fixed for a checkpoint's life.",
        section=KAFKA,
        unit="partitions",
        bounds=(1, 10_000),
    )
    replication_factor: int = setting(
        1,
        "Replicas of a topic that is made; with 3 or more, two must have each record.",
        section=KAFKA,
        unit="replicas",
        bounds=(1, 100),
    )
    create_check_topics: bool = setting(
        True,
        "Whether the resolver makes the check topic of a group that it meets for the first time.",
        section=KAFKA,
    )
    kafka_transaction_timeout_ms: int = setting(
        300_000,
        "When Kafka aborts a batch's transaction; at most the broker's transaction.max.timeout.ms.",
        section=KAFKA,
        unit="ms",
        bounds=(1_000, _INT),
    )

    transaction_timeout_ms: int = setting(
        6_000,
        "Age of a half at its first check, where it has no immunity of its own.",
        section=TRANSACTIONS,
        unit="ms",
        rocketmq="transactionTimeOut",
        bounds=(1, 30 * _DAY_MS),
    )
    transaction_check_interval_ms: int = setting(
        30_000,
        "Time between two checks of a half.",
        section=TRANSACTIONS,
        unit="ms",
        rocketmq="transactionCheckInterval",
        bounds=(1, 30 * _DAY_MS),
    )
    transaction_check_max: int = setting(
        15,
        "Counted checks after which a half is discarded.",
        section=TRANSACTIONS,
        unit="checks",
        rocketmq="transactionCheckMax",
        bounds=(1, 100_000),
    )
    count_unanswered_checks: bool = setting(
        False,
        "true: every check sent counts, as in RocketMQ; false: only checks that were answered.",
        section=TRANSACTIONS,
    )
    check_backoff_max_ms: int = setting(
        600_000,
        "Longest wait between checks that nobody answers; it doubles up to this.",
        section=TRANSACTIONS,
        unit="ms",
        bounds=(1, 30 * _DAY_MS),
    )
    file_reserved_hours: int = setting(
        72,
        "Age at which a checked half is discarded; topics keep their records twice as long.",
        section=TRANSACTIONS,
        unit="hours",
        rocketmq="fileReservedTime",
        bounds=(1, _YEAR_HOURS),
    )
    reject_transaction_message: bool = setting(
        False,
        "Whether new transactions are refused; a commit of a new half ends as UNDELIVERABLE.",
        section=TRANSACTIONS,
        rocketmq="rejectTransactionMessage",
    )
    broker_clock_skew_ms: int = setting(
        600_000,
        "How far the clocks of two brokers may differ: the audit judges nothing by less.",
        section=TRANSACTIONS,
        unit="ms",
        bounds=(0, 30 * _DAY_MS),
    )

    max_checks_per_batch: int = setting(
        5_000,
        "Checks and discards of one batch, shared by the queues: at least one for each queue.",
        section=RESOLVE,
        unit="checks",
        bounds=(1, 1_000_000),
    )
    max_offsets_per_trigger: int = setting(
        80_000,
        "Records that one batch reads of the half and the op topic together.",
        section=RESOLVE,
        unit="records",
        bounds=(1, 10_000_000),
    )
    max_bytes_per_trigger: int = setting(
        134_217_728,
        "Most bytes of the records that one batch reads, estimated from a few of each partition. "
        "The limit also holds for earlier batches' messages that ops release, and again for those "
        "that checks and discards carry. A batch is in memory as a whole, on the driver too: with "
        "a higher limit raise spark.driver.memory.",
        section=RESOLVE,
        unit="bytes",
        bounds=(1_048_576, 10_000_000_000),
    )
    trigger_interval_ms: int = setting(
        100,
        "Least time between the starts of two batches; less than 10 keeps a core busy when idle.",
        section=RESOLVE,
        unit="ms",
        bounds=(10, _DAY_MS),
    )
    fence_interval_ms: int = setting(
        1_000,
        "Time after which an idle queue's fence is asked for again.",
        section=RESOLVE,
        unit="ms",
        bounds=(10, _DAY_MS),
    )
    revocations_at_once: int = setting(
        8,
        "Fast ids that are revoked at a time; of more, those that are wanted longest come first.",
        section=RESOLVE,
        unit="ids",
        bounds=(1, 1_000),
    )
    stuck_ms: int = setting(
        2_000,
        "Time after which a producer's open transaction that holds up an op partition is ended.",
        section=RESOLVE,
        unit="ms",
        bounds=(100, _DAY_MS),
    )

    land_trigger_interval_ms: int = setting(
        10_000,
        "Least time between the starts of two batches into the Delta tables.",
        section=LAND,
        unit="ms",
        bounds=(10, _DAY_MS),
    )
    land_max_offsets_per_trigger: int = setting(
        500_000,
        "Records that one batch lands.",
        section=LAND,
        unit="records",
        bounds=(1, 100_000_000),
    )

    keep_half_days: int = setting(
        0,
        "Days of table `half` that `txresolver maintain` keeps; 0: all.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )
    keep_op_days: int = setting(
        0,
        "The same of table `op`; as many as of `half`, or more.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )
    keep_check_days: int = setting(
        0,
        "The same of table `check`; as many as of `half`, or more.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )
    keep_discarded_days: int = setting(
        0,
        "The same of table `discarded`; as many as of `half`, or more.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )
    keep_quarantine_days: int = setting(
        0,
        "The same of table `quarantine`; as many as of `half`, or more.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )
    keep_parked_days: int = setting(
        0,
        "The same of table `parked`; as many as of `half`, or more.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )
    keep_resolution_days: int = setting(
        0,
        "The same of table `resolution`; as many as of `half`, or more.",
        section=KEEPING,
        unit="days",
        bounds=(0, 36_500),
    )

    op_max_bytes: int = setting(
        4_096,
        "Size at which an op record that packs several ends is sent.",
        section=PRODUCER,
        unit="bytes",
        rocketmq="transactionOpMsgMaxSize",
        bounds=(1, 900_000),
    )
    op_linger_ms: int = setting(
        10,
        "Longest wait of an end for others to be packed with.",
        section=PRODUCER,
        unit="ms",
        rocketmq="transactionOpBatchInterval",
        bounds=(0, 60_000),
    )
    check_thread_pool_min_size: int = setting(
        1,
        "Threads of the agent that are always there.",
        section=PRODUCER,
        unit="threads",
        rocketmq="checkThreadPoolMinSize",
        bounds=(1, 1_000),
    )
    check_thread_pool_max_size: int = setting(
        5,
        "Threads of the agent at most.",
        section=PRODUCER,
        unit="threads",
        rocketmq="checkThreadPoolMaxSize",
        bounds=(1, 1_000),
    )
    check_request_hold_max: int = setting(
        2_000,
        "Checks that wait in the agent before it stops fetching more.",
        section=PRODUCER,
        unit="checks",
        rocketmq="checkRequestHoldMax",
        bounds=(1, 1_000_000),
    )
    check_timeout_ms: int = setting(
        10_000,
        "Time after which a listener that does not return has not answered the check.",
        section=PRODUCER,
        unit="ms",
        bounds=(1, _DAY_MS),
    )

    metrics_address: str = setting(
        "",
        "Where `up` and the jobs serve /metrics, /livez and /readyz, host:port; empty: nowhere.",
        section=WATCH,
    )
    agent_metrics_address: str = setting(
        "",
        "Where `txresolver agent` serves the same, host:port; empty: nowhere.",
        section=WATCH,
    )

    # Keep these out of repr, which ends up in logs: they may hold passwords.
    kafka: dict[str, str] = field(default_factory=dict, repr=False, hash=False)
    spark: dict[str, str] = field(default_factory=dict, repr=False, hash=False)
    groups: dict[str, Group] = field(default_factory=dict, hash=False)
    origins: dict[str, str] = field(default_factory=dict, repr=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        for name, definition in DEFINITIONS.items():
            definition.check(getattr(self, name))
        check_kafka(self.kafka)
        check_spark(self.spark)
        check_rules(self)
        check_groups(self.groups, self.topic_prefix)

    @classmethod
    def load(
        cls,
        config: Path | None = None,
        overrides: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Settings:
        """Merge defaults, `config` (TOML), TXRESOLVER_ variables and `overrides` (`--set`).

        `overrides` maps names, and options as "kafka.x" and "spark.y", to text; `environ` is
        the process's own environment unless given.
        """
        read = [
            layers.from_file(config, DEFINITIONS) if config is not None else {},
            layers.from_environment(os.environ if environ is None else environ, DEFINITIONS),
            layers.from_overrides(overrides or {}, DEFINITIONS),
        ]
        return cls(**layers.merge(read, DEFINITIONS))

    @property
    def file_reserved_ms(self) -> int:
        return self.file_reserved_hours * 3_600_000

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark's own configuration: [spark] without the `kafka.*` options."""
        return {key: value for key, value in self.spark.items() if not key.startswith("kafka.")}

    def shown(self) -> list[tuple[str, str, str]]:
        """Return (name, value, origin) of everything, secrets masked."""
        rows = [(name, layers.text(getattr(self, name))) for name in DEFINITIONS]
        for table in ("kafka", "spark"):
            options = masked(getattr(self, table))
            rows += [(f"{table}.{key}", value) for key, value in sorted(options.items())]
        rows += [(f"groups.{name}", str(group)) for name, group in sorted(self.groups.items())]
        return [(name, value, self.origins.get(name, "default")) for name, value in rows]


DEFINITIONS = definitions_of(Settings)


def definitions() -> dict[str, Definition]:
    """Return every setting except the tables [kafka] and [spark], by name."""
    return dict(DEFINITIONS)
