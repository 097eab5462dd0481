"""Transactional messages on Kafka, Spark and Delta."""

from .agent import TransactionAgent
from .async_producer import AsyncTransactionProducer
from .ending import TransactionEnd
from .errors import (
    AgentHung,
    HalfNotAcknowledged,
    ListenerError,
    MessageRefused,
    SendError,
    SettingsError,
    TxResolverError,
)
from .listener import TransactionListener
from .message import Message
from .producer import TransactionProducer
from .protocol import TransactionStatus
from .transaction import Transaction, TransactionSendResult

__all__ = [
    "AgentHung",
    "AsyncTransactionProducer",
    "HalfNotAcknowledged",
    "ListenerError",
    "Message",
    "MessageRefused",
    "SendError",
    "SettingsError",
    "Transaction",
    "TransactionAgent",
    "TransactionEnd",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionStatus",
    "TxResolverError",
]
