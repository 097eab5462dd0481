"""What the protocol needs of its topics (docs/protocol.md): values to make them with, and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from .protocol.names import Names
from .settings import Settings

#: A topic's settings as Kafka tells them.
Config = Mapping[str, str]

_BROKER_MAX_MESSAGE_BYTES = 1_048_588  # Kafka's own default
_DAY_MS = 86_400_000
#: What outputs are larger than halves: headers that the resolver adds, an error's text.
HEADROOM_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Rule:
    """A setting that the protocol can't do without; `fix` is a value that satisfies it."""

    setting: str
    needed: str
    fix: str
    holds: Callable[[str], bool]
    why: str


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic: what it is made with, and what must hold if it is there already."""

    name: str
    partitions: int
    config: Mapping[str, str]
    rules: tuple[Rule, ...]


def queue_topics(settings: Settings) -> list[TopicSpec]:
    """Return the half and the op topic, on whose settings those of the others depend."""
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
    """Return the topics that the resolver writes, given what the half and op topics have."""
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
        # Never written to: it is what the resolver's committed offset is an offset of.
        TopicSpec(names.marker, 1, {"cleanup.policy": "delete"}, ()),
    ]


def broken(spec: TopicSpec, config: Config, replicas: int) -> Iterator[tuple[Rule, str]]:
    """Yield the rules that an existing topic breaks, each with the value that was found."""
    rules = (*spec.rules, _in_sync(replicas)) if spec.rules else ()
    for rule in rules:
        found = config.get(rule.setting, "")
        if not rule.holds(found):
            yield rule, found


def _config(settings: Settings, keep: int) -> dict[str, str]:
    return {
        "cleanup.policy": "delete",
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": str(_least_in_sync(settings.replication_factor)),
        "retention.ms": str(keep),
        "retention.bytes": "-1",
    }


def _least_in_sync(replicas: int) -> int:
    # With two replicas, needing both would stop everything when one is away.
    return 2 if replicas >= 3 else 1


def _in_sync(replicas: int) -> Rule:
    least = _least_in_sync(replicas)
    return Rule(
        "min.insync.replicas",
        f"{least} to {replicas} with {replicas} replicas",
        str(least),
        lambda found: least <= int(found) <= replicas,
        "an acknowledged record must outlive a broker, and the topic must be writable",
    )


def _equal(setting: str, value: str, why: str) -> Rule:
    return Rule(setting, value, value, lambda found: found == value, why)


def _at_least(setting: str, value: int, why: str) -> Rule:
    return Rule(setting, f"{value} or more", str(value), lambda found: int(found) >= value, why)


_NOT_COMPACTED = _equal("cleanup.policy", "delete", "compaction loses records of one key")


def _kept(keep: int, why: str) -> tuple[Rule, ...]:
    """Return the rules that a record is there for `keep` ms (-1: for ever)."""
    needed = "-1 (for ever)" if keep == -1 else f"{keep} or more, or -1 (for ever)"
    return (
        _NOT_COMPACTED,
        Rule(
            "retention.ms",
            needed,
            str(keep),
            lambda found: int(found) == -1 or int(found) >= keep != -1,
            why,
        ),
        _equal("retention.bytes", "-1", "a limit of size deletes records before their time"),
    )


def _lifetime(config: Config) -> int:
    """Return how long a record may be there: Kafka deletes whole segments; -1 is for ever."""
    retention = int(config["retention.ms"])
    return -1 if retention == -1 else retention + int(config["segment.ms"])


def _longest(*lifetimes: int) -> int:
    return -1 if -1 in lifetimes else max(lifetimes)
