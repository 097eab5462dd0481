"""Says what an error of Kafka means for an operation, and what to do."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from ..errors import OperationError

_REFUSALS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
_MISSING = (
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
#: Errors that trying again does not mend.
FOR_GOOD = (*_REFUSALS, *_MISSING)


def explained(error: KafkaException, how_far: str, remedy: str) -> OperationError:
    """Return the error to raise: how far it came, why it stopped, what to do."""
    cause: KafkaError = error.args[0]
    if cause.code() in _REFUSALS:
        remedy = f"grant the operator's rights, docs/protocol.md, section 9. {remedy}"
    elif cause.code() in _MISSING:
        remedy = f"make the topic, as with `txresolver topics create`. {remedy}"
    return OperationError(f"{how_far}: {cause.str()}", remedy=remedy)
