"""Every error of this project, as one tree.

```text
TxResolverError
├── SettingsError               a setting's value or name is refused
├── NoBroker                    no broker answered in time; a later start may find one
├── TopicSettingsError          an existing topic has settings that break the protocol
├── AccessError                 rights can't be granted in Kafka
├── ProtocolError               a record does not follow docs/protocol.md
│   ├── MalformedHalf
│   └── MalformedOp
├── BrokerError                 the embedded broker did not start, or did not stay up
├── SendError                   the producer could not send
│   ├── TopicsMissing           the half or the op topic is not there
│   ├── MessageRefused          the message breaks a rule (topic, size, headers)
│   │   ├── TransactionsRejected    the resolver takes no new transactions now
│   │   ├── TopicNotPermitted       the group may not publish to the topic
│   │   ├── RealTopicMissing        the topic does not exist
│   │   ├── PartitionMissing        the topic does not have the partition `real_qid`
│   │   ├── KeyMissing              the topic is compacted, and the message has no key
│   │   └── MessageTooLarge         a topic does not take so large a message
│   ├── HalfNotAcknowledged     the half may or may not be stored; the local transaction did not run
│   └── CommitNotAcknowledged   the commit may or may not be stored; the local transaction is over
├── ListenerError               a listener is missing or unusable
├── ListenerGone                a listener can't be asked any more
├── CommitNotConfirmed          a check would not find a commit (`verify`)
├── ContractBroken              a listener and its local transaction do not fit (`resolver.testing`)
├── TransactionLogError         a transaction log can't be used in this way
├── DemoError                   the demo could not be shown to its end
├── AuditError                  the ledger could not be audited (exit code 4)
├── LedgerError                 the ledger could not be read
│   └── NoSuchTransaction       no transaction has this id, or more than one (exit code 5)
├── OperationError              an operator's act could not be carried out, or not to its end
│   └── ActRefused              the act does not apply to what was chosen (exit code 2)
├── AgentHung                   every thread of the agent waits for a listener that does not return
└── ResolverError               the resolver can't go on
    ├── DamagedTable            a Delta table's log is not whole
    ├── MarkerMismatch          the marker names another query, or other content of a batch
    ├── RecordsAway             records of some queues did not come in time
    ├── Replaced                another resolver took over (exit code 3)
    └── DeliveryError           a batch could not be written
```
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


class TxResolverError(Exception):
    """The root of all errors of this project.

    Its text, `str(error)`, is `message; remedy`, or `message` where there is no remedy. Pickling
    keeps both.

    Attributes:
        message: The cause, with the value that is refused.
        remedy: Advice to a person; empty where nobody can do anything.
        exit_code: Exit code of a command that ends with the error: 1 unless a subclass has its own.

    Example:
        ```python
        try:
            producer.send_message_in_transaction(message)
        except TxResolverError as error:
            log.error("not sent: %s", error.message)
            log.error("to do: %s", error.remedy or "nothing")
        ```
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class SettingsError(TxResolverError):
    """A setting's value or name is refused; the message names the value.

    It is also raised for an illegal argument of a producer or an agent, and for an option that
    librdkafka refuses. Commands end with exit code 2.

    Example:
        ```python
        try:
            producer = TransactionProducer("orders", servers, listener, op_linger_ms=-1)
        except SettingsError as error:
            sys.exit(f"configuration: {error}")
        ```
    """

    exit_code = 2


class NoBroker(TxResolverError):
    """No broker answered in time; a later start may find one."""


class TopicSettingsError(TxResolverError):
    """An existing topic has settings that break the protocol."""


class AccessError(TxResolverError):
    """Rights can't be granted in Kafka."""


class ProtocolError(TxResolverError):
    """A record does not follow the protocol."""


class MalformedHalf(ProtocolError):
    """A record of the half topic is not a half."""


class MalformedOp(ProtocolError):
    """A record of the op topic, or one element of it, is not an op."""


class BrokerError(TxResolverError):
    """The embedded broker did not start, or did not stay up."""


class SendError(TxResolverError):
    """The producer could not send.

    These are the causes:

    - No broker answers in time. A topic is missing, or a right on it.
    - The half topic and the op topic have different partition counts.
    - The producer is closed, or was made before a fork. Make a new one in this process.
    - A transaction is ended a second time, with another state.
    - An async producer was not started in this event loop, or is started twice.

    Example:
        ```python
        try:
            producer = TransactionProducer("orders", "localhost:9092", listener)
        except SendError as error:
            sys.exit(f"Kafka: {error}")
        ```
    """


class TopicsMissing(SendError):
    """The half or the op topic is not there."""


class MessageRefused(SendError):
    """The message breaks a rule of topic, body, key, headers or size; nothing was stored.

    The local transaction does not run. The message of the error names the value. Sending the same
    message again does not help, unless a subclass says otherwise.

    Example:
        ```python
        try:
            producer.begin(message)
        except MessageRefused as error:
            return reply(400, str(error))
        ```
    """


class TransactionsRejected(MessageRefused):
    """The resolver takes no new transactions: its `reject_transaction_message` is set.

    The message can be sent later: a producer learns within seconds that the setting is off.

    Example:
        ```python
        try:
            producer.begin(message)
        except TransactionsRejected:
            return reply(503, "closed for maintenance")
        ```
    """


class TopicNotPermitted(MessageRefused):
    """The group may not publish to the topic, by the resolver's settings, or nobody may.

    `topics` of the group's section in the resolver's settings has the permitted ones. Kafka's own
    topics are nobody's.

    Example:
        ```python
        try:
            producer.begin(Message("payments", b"..."))
        except TopicNotPermitted as error:
            log.error("%s", error)
        ```
    """


class RealTopicMissing(MessageRefused):
    """The message's topic does not exist; a topic that is made now is found by the next send.

    Example:
        ```python
        try:
            producer.begin(Message("orders.plaecd", b"..."))
        except RealTopicMissing as error:
            log.error("%s", error)
        ```
    """


class PartitionMissing(MessageRefused):
    """The message's topic does not have the partition that `real_qid` names.

    Example:
        ```python
        try:
            producer.begin(Message("orders.placed", b"...", real_qid=12))
        except PartitionMissing as error:
            log.error("%s", error)
        ```
    """


class KeyMissing(MessageRefused):
    """The message has no key, and its topic is compacted: Kafka takes no such record there.

    Example:
        ```python
        try:
            producer.begin(Message("customers", b"..."))
        except KeyMissing:
            producer.begin(Message("customers", b"...", key=b"customer-7"))
        ```
    """


class MessageTooLarge(MessageRefused):
    """The half topic or the message's own topic does not take so large a message.

    The headers that are added on the way count, and compression does not.

    Example:
        ```python
        try:
            producer.begin(Message("orders.placed", document))
        except MessageTooLarge:
            producer.begin(Message("orders.placed", reference_to(document)))
        ```
    """


class HalfNotAcknowledged(SendError):
    """The half may or may not be stored; the local transaction did not run.

    The caller may send the message again: it gets a new transaction id. If the first half is stored
    all the same, the producer rolls it back, or its check finds no trace of a local transaction.

    Example:
        ```python
        try:
            tx = producer.begin(message, timeout=5.0)
        except HalfNotAcknowledged:
            tx = producer.begin(message)  # a new half with a new transaction id
        ```
    """


class CommitNotAcknowledged(SendError):
    """The commit may or may not be stored; the local transaction is over.

    Only `commit(wait=True)` raises it. Nothing is lost: if the commit is not stored, a check finds
    the state of the local transaction. Do not send the message again.

    Example:
        ```python
        try:
            is_visible = tx.commit(wait=True)
        except CommitNotAcknowledged:
            is_visible = False  # a check delivers it
        ```
    """


class ListenerError(TxResolverError):
    """A listener is missing or unusable.

    These are the causes:

    - There is no listener, and `checks_elsewhere` is false.
    - The class is given. Give an instance.
    - The path of a listener (`package.module:Class`) can't be loaded.
    - A method that is needed is missing. Subclass `TransactionListener` and define it.
    - A method is async and the producer is not. Use `AsyncTransactionProducer`.

    Example:
        ```python
        try:
            producer = TransactionProducer("orders", "localhost:9092", OrderListener())
        except ListenerError as error:
            sys.exit(f"listener: {error}")
        ```
    """


class ListenerGone(TxResolverError):
    """The listener can't be asked any more; other members of the group may answer."""


class CommitNotConfirmed(TxResolverError):
    """A check would not find a commit; the producer has `verify` on.

    No commit was sent: the transaction is UNKNOWN, and its check decides. These are the causes:

    - The local transaction does not write the transaction id down, or in another database.
    - The database commits after the message. Swap the two blocks.
    - The listener fails. The exception behind this one says why.

    Example:
        ```python
        with pytest.raises(CommitNotConfirmed):
            with producer.transaction(message):
                place_order_without_id()
        ```
    """


class ContractBroken(TxResolverError):
    """A listener and its local transaction do not keep the contract; the text says how to mend it.

    Example:
        ```python
        try:
            check_contract(OrderListener(), run)
        except ContractBroken as error:
            sys.exit(str(error))
        ```
    """


class TransactionLogError(TxResolverError):
    """A transaction log can't be used in this way; nothing was written."""


class AgentHung(TxResolverError):
    """Every thread of the agent waits for a listener that does not return.

    The agent sends UNKNOWN for these checks, commits their offsets and ends. Other members of the
    group get the later checks. Find the wait in `check_local_transaction`, or raise
    `check_timeout_ms` or `check_thread_pool_max_size`.

    Example:
        ```python
        with TransactionAgent("orders", "localhost:9092", OrderListener()) as agent:
            try:
                agent.join()
            except AgentHung as error:
                sys.exit(str(error))  # a supervisor starts the process again
        ```
    """


class DemoError(TxResolverError):
    """The demo could not be shown to its end."""


class AuditError(TxResolverError):
    """The ledger could not be audited; its correctness is unknown."""

    exit_code = 4


class LedgerError(TxResolverError):
    """The ledger could not be read; the message names the table."""


class NoSuchTransaction(LedgerError):
    """No transaction has this id or this beginning of an id, or more than one has it."""

    exit_code = 5


class OperationError(TxResolverError):
    """An operator's act could not be carried out to its end; the text says how far it came."""


class ActRefused(OperationError):
    """An operator's act does not apply to what was chosen; nothing was done."""

    exit_code = 2


class ResolverError(TxResolverError):
    """The resolver can't go on."""


class DamagedTable(ResolverError):
    """A Delta table's log is not whole."""


class MarkerMismatch(ResolverError):
    """The marker names another query, or other content for the same batch."""


class RecordsAway(ResolverError):
    """Records of some queues' partitions did not come in time."""

    def __init__(self, queues: Sequence[int], message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.args = (queues, message, remedy)  # pickle makes the error again from them
        self.queues = queues


class Replaced(ResolverError):
    """Another resolver took over the topics."""

    exit_code = 3

    def __init__(
        self,
        message: str,
        remedy: str = "if that was not meant, give each resolver its own topic_prefix",
    ) -> None:
        super().__init__(message, remedy)


class DeliveryError(ResolverError):
    """A batch could not be written to Kafka; a restart writes it again."""


def how_to_install(extra: str) -> str:
    """Return the command that adds an extra, from where this installation came from."""
    source = shlex.quote(_source(extra, _came_from()))
    return f"{shlex.quote(sys.executable)} -m pip install {source}"


def _came_from() -> dict[str, Any]:
    """Return what pip noted about the place; empty if that was a package index."""
    try:
        noted = metadata.distribution("txresolver").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # the sources alone
        return {"url": Path(__file__).parents[1].as_uri(), "dir_info": {}}
    return dict(json.loads(noted or "{}"))


def _source(extra: str, came_from: dict[str, Any]) -> str:
    url = came_from.get("url", "")
    if "dir_info" in came_from:
        return f"{url2pathname(urlsplit(url).path)}[{extra}]"
    if "vcs_info" in came_from:
        vcs = came_from["vcs_info"]
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    return f"txresolver[{extra}] @ {url}" if url else f"txresolver[{extra}]"
