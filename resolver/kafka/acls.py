"""Grants rights in Kafka; takes none away."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ..errors import AccessError
from .rights import Right
from .topic_admin import await_seen

_TIMEOUT_SECONDS = 30.0
_ANY: Any = None  # any name; the stubs demand one
_ALL = AclBindingFilter(
    ResourceType.ANY,
    _ANY,
    ResourcePatternType.ANY,
    _ANY,
    _ANY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
_REMEDIES = {
    KafkaError.SECURITY_DISABLED: "set authorizer.class.name on brokers and controllers, such as "
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "log in as an administrator: this "
    "needs Alter and Describe on the cluster",
}


def grant(admin: AdminClient, wanted: list[Right]) -> set[Right]:
    """Grant the missing rights and return them, once the broker knows all rights.

    Raises `AccessError` where Kafka has no authorizer, or does not let us change anything.
    """
    granted = _bindings(admin)
    missing = {right.binding(): right for right in wanted if right.binding() not in granted}
    if missing:
        for future in admin.create_acls(list(missing), request_timeout=_TIMEOUT_SECONDS).values():
            _result(future)
        failure = f"{len(missing)} new ACLs did not appear"
        await_seen(lambda: missing.keys() <= _bindings(admin) or None, failure)
    return set(missing.values())


def _bindings(admin: AdminClient) -> set[AclBinding]:
    return set(_result(admin.describe_acls(_ALL, request_timeout=_TIMEOUT_SECONDS)))


def _result(future: Any) -> Any:
    try:
        return future.result(timeout=2 * _TIMEOUT_SECONDS)
    except (KafkaException, FutureTimeout) as error:
        reason = error.args[0] if error.args else KafkaError(KafkaError._TIMED_OUT)
        remedy = _REMEDIES.get(reason.code(), "see the log of the broker")
        raise AccessError(
            f"ACLs can't be read or granted: {reason.str()}", remedy=remedy
        ) from error
