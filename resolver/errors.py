"""Every error of this project, as one tree.

TxResolverError
├── SettingsError               a setting's value or name is refused
├── TopicSettingsError          an existing topic has settings that the protocol can't live with
├── AccessError                 rights can't be granted in Kafka
├── ProtocolError               a record is not what docs/protocol.md says
│   ├── MalformedHalf
│   └── MalformedOp
├── BrokerError                 the embedded broker did not start or stay up
├── SendError                   the producer could not send
│   ├── MessageRefused          the message can't be sent as it is (topic, size, headers)
│   └── HalfNotAcknowledged     the half may or may not be stored; the local transaction did not run
├── ListenerError               a listener is missing or unusable
├── DemoError                   the demo could not be shown to its end
├── AuditError                  the ledger could not be audited (exit code 4)
├── FaultError                  a fault campaign could not go on
├── AgentHung                   every thread of the agent waits for a listener that does not return
└── ResolverError               the resolver can't go on
    ├── MarkerMismatch          the marker speaks of another query or of another content
    ├── Replaced                another resolver took over (exit code 3)
    └── DeliveryError           a batch could not be written
"""

from __future__ import annotations


class TxResolverError(Exception):
    """The root; `exit_code` is what the command exits with."""

    exit_code = 1


class SettingsError(TxResolverError):
    """A setting's value or name is refused."""

    exit_code = 2


class TopicSettingsError(TxResolverError):
    """An existing topic has settings that the protocol can't live with."""


class AccessError(TxResolverError):
    """Rights can't be granted in Kafka."""


class ProtocolError(TxResolverError):
    """A record is not what the protocol says."""


class MalformedHalf(ProtocolError):
    """A record of the half topic that is not a half."""


class MalformedOp(ProtocolError):
    """A record of the op topic, or one element of it, that is not an op."""


class BrokerError(TxResolverError):
    """The embedded broker did not start or stay up."""


class SendError(TxResolverError):
    """The producer could not send."""


class MessageRefused(SendError):
    """The message can't be sent as it is; nothing was stored."""


class HalfNotAcknowledged(SendError):
    """The half may or may not be stored; the local transaction did not run."""


class ListenerError(TxResolverError):
    """A listener is missing or unusable."""


class AgentHung(TxResolverError):
    """Every thread of the agent waits for a listener that does not return."""


class DemoError(TxResolverError):
    """The demo could not be shown to its end."""


class AuditError(TxResolverError):
    """The ledger could not be audited; whether it holds is not known."""

    exit_code = 4


class FaultError(TxResolverError):
    """A fault campaign could not go on."""


class ResolverError(TxResolverError):
    """The resolver can't go on."""


class DamagedTable(ResolverError):
    """A Delta table's log is not whole."""


class MarkerMismatch(ResolverError):
    """The marker speaks of another query, or of other content for the same batch."""


class Replaced(ResolverError):
    """Another resolver took over the topics."""

    exit_code = 3


class DeliveryError(ResolverError):
    """A batch could not be written to Kafka; it is written again after a restart."""
