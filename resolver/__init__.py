"""Transactional messages on Kafka, Spark and Delta.

The names in `__all__` are the public ones; all others may change.
"""

from typing import TYPE_CHECKING

from .errors import (
    AgentHung,
    CommitNotAcknowledged,
    CommitNotConfirmed,
    HalfNotAcknowledged,
    KeyMissing,
    ListenerError,
    MessageRefused,
    MessageTooLarge,
    PartitionMissing,
    RealTopicMissing,
    SendError,
    SettingsError,
    TopicNotPermitted,
    TransactionsRejected,
    TxResolverError,
)
from .producer.agent import TransactionAgent
from .producer.async_producer import AsyncTransactionProducer
from .producer.async_transaction import AsyncTransaction
from .producer.end_hooks import TransactionEnd
from .producer.listener import TransactionListener
from .producer.message import Message
from .producer.producer import TransactionProducer
from .producer.send_result import TransactionSendResult
from .producer.transaction import Transaction
from .protocol import TransactionStatus

__all__ = [
    "AgentHung",
    "AsyncTransaction",
    "AsyncTransactionProducer",
    "CommitNotAcknowledged",
    "CommitNotConfirmed",
    "HalfNotAcknowledged",
    "KeyMissing",
    "ListenerError",
    "Message",
    "MessageRefused",
    "MessageTooLarge",
    "PartitionMissing",
    "RealTopicMissing",
    "SendError",
    "SettingsError",
    "TopicNotPermitted",
    "Transaction",
    "TransactionAgent",
    "TransactionEnd",
    "TransactionListener",
    "TransactionProducer",
    "TransactionSendResult",
    "TransactionStatus",
    "TransactionsRejected",
    "TxResolverError",
    "__version__",
]

if TYPE_CHECKING:
    #: Version of the installed package; `unknown` where its files are used without installing it.
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Return the version on first use: the lookup takes a fifth of the time of this import."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("txresolver")
        except PackageNotFoundError:  # shipped with --py-files, or run from its folder
            return "unknown"
