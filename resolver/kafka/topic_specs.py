"""Topics as the protocol needs them (docs/protocol.md): values for making them, and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..protocol.names import Names
from ..settings import Settings

#: A topic's settings as Kafka returns them.
Config = Mapping[str, str]

_BROKER_MAX_MESSAGE_BYTES = 1_048_588  # Kafka's own default
_DAY_MS = 86_400_000
#: Bytes of a record in the lane. Nearly all messages that fit their real topic fit the lane too. A
#: client reads no more than 100,000,000 bytes at a time (`receive.message.max.bytes`).
_LARGEST_BYTES = 67_108_864
#: Bytes by which outputs may be larger than halves: headers that the resolver adds, an error's
#: text.
HEADROOM_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Rule:
    """A topic setting that the protocol needs; `fix` is a value that satisfies it."""

    setting: str
    needed: str
    fix: str
    holds: Callable[[str], bool]
    why: str


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic: the settings to make it with, and the rules for an existing one."""

    name: str
    partitions: int
    config: Mapping[str, str]
    rules: tuple[Rule, ...]


def queue_topics(settings: Settings) -> list[TopicSpec]:
    """Return the half and the op topic; settings of the other topics depend on theirs."""
    names = Names(settings.topic_prefix)
    keep = 2 * settings.file_reserved_ms
    config = _config(settings, keep) | {"segment.ms": str(min(keep, _DAY_MS))}
    rules = (
        _equal("message.timestamp.type", "LogAppendTime", "producers' clocks decide nothing"),
        *_kept(keep, f"twice file_reserved_hours ({settings.file_reserved_hours})"),
    )
    half_config = config | {"max.message.bytes": str(_BROKER_MAX_MESSAGE_BYTES)}
    return [
        TopicSpec(names.half, settings.queues, half_config, rules),
        TopicSpec(names.op, settings.queues, config, rules),
    ]


def output_topics(
    settings: Settings, groups: Iterable[str], half: Config, op: Config
) -> list[TopicSpec]:
    """Return the topics that the resolver writes, given the settings of the half and op topics."""
    names = Names(settings.topic_prefix)
    keep = _longest(_lifetime(half), _lifetime(op))
    larger = int(half["max.message.bytes"]) + HEADROOM_BYTES
    config = _config(settings, keep)
    outputs = config | {"max.message.bytes": str(larger)}
    fits = _at_least("max.message.bytes", larger, "it takes a half and what the resolver adds")
    queues = settings.queues
    carriers = [names.discarded, names.quarantine, *map(names.check, groups)]
    return [
        TopicSpec(
            names.resolution,
            queues,
            config,
            _kept(keep, "as long as a half or an op may be there: retention.ms + segment.ms"),
        ),
        *(TopicSpec(name, queues, outputs, (_NOT_COMPACTED, fits)) for name in carriers),
        # Keep messages of a topic in their order, by a single partition.
        TopicSpec(
            names.parked,
            1,
            _config(settings, -1) | {"max.message.bytes": str(max(_LARGEST_BYTES, larger))},
            (*_kept(-1, "a parked message waits for its topic, however long"), fits),
        ),
        # Keep claims in their order, by a single partition: the first claim of a half wins.
        TopicSpec(
            names.operation,
            1,
            _config(settings, -1),
            _kept(-1, "a message is brought back once, however long ago it was given up"),
        ),
        TopicSpec(
            names.policy,
            1,
            _config(settings, -1) | {"cleanup.policy": "compact", "segment.ms": str(_DAY_MS)},
            (_equal("cleanup.policy", "compact", "the last policy is kept, however old it is"),),
        ),
        # Never write to it: the topic exists because the resolver's committed offset needs one.
        TopicSpec(names.marker, 1, {"cleanup.policy": "delete"}, ()),
    ]


def real_topic(settings: Settings, name: str, partitions: int) -> TopicSpec:
    """Return a real topic; an existing one may be as it likes."""
    least = str(_least_in_sync(settings.replication_factor))
    return TopicSpec(name, partitions, {"min.insync.replicas": least}, ())


def broken(spec: TopicSpec, config: Config, replicas: int) -> Iterator[tuple[Rule, str]]:
    """Yield the rules that an existing topic breaks, each with the value that the topic has."""
    rules = (*spec.rules, _in_sync(replicas)) if spec.rules else ()
    for rule in rules:
        value = config.get(rule.setting, "")
        if not rule.holds(value):
            yield rule, value


def _config(settings: Settings, keep: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(_least_in_sync(settings.replication_factor)),
        "retention.ms": str(keep),
        "retention.bytes": "-1",
    }


def _least_in_sync(replicas: int) -> int:
    # Need one of two replicas: needing both would stop everything when one is away.
    return 2 if replicas >= 3 else 1


def _in_sync(replicas: int) -> Rule:
    least = _least_in_sync(replicas)
    return Rule(
        "min.insync.replicas",
        f"{least} to {replicas} with {replicas} replicas",
        str(least),
        lambda actual: least <= int(actual) <= replicas,
        "an acknowledged record must outlive a broker, and the topic must be writable",
    )


def _equal(setting: str, value: str, why: str) -> Rule:
    return Rule(setting, value, value, lambda actual: actual == value, why)


def _at_least(setting: str, value: int, why: str) -> Rule:
    return Rule(setting, f"{value} or more", str(value), lambda actual: int(actual) >= value, why)


_NOT_COMPACTED = _equal("cleanup.policy", "delete", "compaction loses records of one key")


def _kept(keep: int, why: str) -> tuple[Rule, ...]:
    """Return the rules that a record is kept for `keep` ms (-1: without limit)."""
    needed = "-1 (without limit)" if keep == -1 else f"{keep} or more, or -1 (without limit)"
    return (
        _NOT_COMPACTED,
        Rule(
            "retention.ms",
            needed,
            str(keep),
            lambda actual: int(actual) == -1 or int(actual) >= keep != -1,
            why,
        ),
        _equal("retention.bytes", "-1", "a limit of size deletes records before their time"),
    )


def _lifetime(config: Config) -> int:
    """Return the longest life of a record in ms: Kafka deletes whole segments. -1: no limit."""
    retention = int(config["retention.ms"])
    return -1 if retention == -1 else retention + int(config["segment.ms"])


def _longest(*lifetimes: int) -> int:
    return -1 if -1 in lifetimes else max(lifetimes)
