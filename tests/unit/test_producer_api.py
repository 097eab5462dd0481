"""The public names, what importing them costs, and what is refused before Kafka is asked."""

from __future__ import annotations

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest

import resolver
import resolver.sql
import resolver.testing
from resolver import (
    ListenerError,
    Message,
    SettingsError,
    TransactionAgent,
    TransactionListener,
    TransactionProducer,
    TransactionStatus,
    TxResolverError,
)
from resolver.producer.agent.listener_path import load_listener
from resolver.producer.async_listener import call_listener_in_loop
from resolver.producer.reported_state import call_listener

NOWHERE = "127.0.0.1:1"


class Commits(TransactionListener):
    def check_local_transaction(self, message: Message) -> TransactionStatus:
        return TransactionStatus.COMMIT_MESSAGE


def test_the_public_names_are_these() -> None:
    assert resolver.__all__ == [
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
    assert all(hasattr(resolver, name) for name in resolver.__all__)


@pytest.mark.parametrize("module", [resolver, resolver.sql, resolver.testing])
def test_a_public_signature_has_public_types_only(module: ModuleType) -> None:
    classes = [each for each in vars(module).values() if inspect.isclass(each)]
    public = {*resolver.__all__, *resolver.sql.__all__, *resolver.testing.__all__}
    ours = {
        f"{each.__name__}.{name}: {word}"
        for each in classes
        for name, method in inspect.getmembers(each, inspect.isfunction)
        if name == "__init__" or not name.startswith("_")
        if "Not part of the API." not in " ".join((method.__doc__ or "").split())
        for word in re.findall(r"\w+", " ".join(map(str, method.__annotations__.values())))
        if word not in public and _is_ours(method.__globals__.get(word), word)
    }
    assert ours == set()


def _is_ours(value: object, word: str) -> bool:
    """Whether a word of a signature names a class, or another name for a type, of ours."""
    if isinstance(value, TypeVar):
        return False
    own = getattr(value, "__module__", "").startswith("resolver")
    return own or getattr(value, "__name__", word) != word


@pytest.mark.parametrize(
    "module", ["resolver", "resolver.producer.agent", "resolver.producer.producer"]
)
def test_importing_the_producer_and_the_agent_loads_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, {module}; "
        "heavy = {'pyspark', 'pandas', 'pyarrow', 'numpy', 'msgpack', 'typer', 'delta'}; "
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_can_not_be_verified_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="verify is 'on'; give True or False"):
        TransactionProducer("orders", NOWHERE, Commits(), verify="on")  # type: ignore[arg-type]
    with pytest.raises(ListenerError, match="verify=True and no listener"):
        TransactionProducer("orders", NOWHERE, checks_elsewhere=True, verify=True)
    monkeypatch.setenv("TXRESOLVER_VERIFY", "yes")
    with pytest.raises(SettingsError, match="TXRESOLVER_VERIFY is 'yes'; set it to 1 or 0"):
        TransactionProducer("orders", NOWHERE, Commits())


def test_without_a_listener_nobody_would_answer() -> None:
    with pytest.raises(ListenerError, match="checks_elsewhere=True"):
        TransactionProducer("orders", NOWHERE)


@pytest.mark.parametrize("group", ["", "a b", "g" * 201, None, "tx.resolver"])
def test_illegal_groups_are_refused(group: Any) -> None:
    with pytest.raises(SettingsError, match="group is"):
        TransactionProducer(group, NOWHERE, Commits())
    with pytest.raises(SettingsError, match="group is"):
        TransactionAgent(group, NOWHERE, Commits())


@pytest.mark.parametrize(
    "option",
    [
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "transactional.id",
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "delivery.report.only.error",
        "default.topic.config",
    ],
)
def test_options_that_are_ours_are_refused_with_the_reason(option: str) -> None:
    with pytest.raises(SettingsError, match=f"'{option}' can't be set.*: .+; remove it"):
        TransactionProducer("orders", NOWHERE, Commits(), kafka={option: "1"})
    with pytest.raises(SettingsError, match=f"'{option}' can't be set"):
        TransactionAgent("orders", NOWHERE, Commits(), kafka={option: "1"})


@pytest.mark.parametrize("wait", [TransactionAgent.join, TransactionAgent.wait_ready])
def test_nobody_waits_for_an_agent_that_was_not_started(
    wait: Callable[[TransactionAgent, float], bool],
) -> None:
    agent = TransactionAgent("orders", NOWHERE, Commits())
    with pytest.raises(TxResolverError, match=r"'orders' was not started; call start\(\)"):
        wait(agent, 0.01)


def test_an_option_that_librdkafka_does_not_know_is_named() -> None:
    with pytest.raises(SettingsError, match=r"no\.such\.option"):
        TransactionProducer("orders", NOWHERE, Commits(), kafka={"no.such.option": "1"})


@pytest.mark.parametrize(
    ("kafka", "why"),
    [
        ({"max.poll.interval.ms": "5000"}, r"max\.poll\.interval\.ms"),
        ({"group.protocol": "consumer", "session.timeout.ms": "9000"}, r"session\.timeout\.ms"),
        ({"partition.assignment.strategy": "nonsense"}, "partition.assignment.strategy"),
    ],
)
def test_an_option_that_only_the_agent_can_not_have_is_refused(
    kafka: dict[str, str], why: str
) -> None:
    with pytest.raises(SettingsError, match=why):
        TransactionProducer("orders", NOWHERE, Commits(), kafka=kafka)
    with pytest.raises(SettingsError, match=why):
        TransactionAgent("orders", NOWHERE, Commits(), kafka=kafka)


@pytest.mark.parametrize("connect", ["eager", "lazy"])
def test_kerberos_is_refused_with_the_remedy(connect: str) -> None:
    kafka = {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"}
    with pytest.raises(SettingsError, match=r"no Kerberos.*SCRAM-SHA-512"):
        TransactionProducer("orders", NOWHERE, Commits(), kafka=kafka, connect=connect)


def test_a_lazy_producer_refuses_options_when_it_is_made() -> None:
    elsewhere: dict[str, Any] = {"checks_elsewhere": True, "connect": "lazy"}
    with pytest.raises(SettingsError, match=r"batch\.size"):
        TransactionProducer("orders", NOWHERE, kafka={"batch.size": "many"}, **elsewhere)


def test_a_way_to_connect_that_does_not_exist_is_named() -> None:
    with pytest.raises(SettingsError, match="connect is 'later'"):
        TransactionProducer("orders", NOWHERE, Commits(), connect="later")


@pytest.mark.parametrize("servers", ["", " ", None])
def test_without_brokers_it_says_what_to_give(servers: Any) -> None:
    with pytest.raises(SettingsError, match="bootstrap_servers is"):
        TransactionProducer("orders", servers, Commits())


@pytest.mark.parametrize(
    "limits",
    [
        {"check_thread_pool_max_size": 0},
        {"check_thread_pool_min_size": 6},
        {"check_request_hold_max": "many"},
        {"check_timeout_ms": -1},
    ],
)
def test_limits_of_the_agent_are_checked(limits: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(limits))):
        TransactionAgent("orders", NOWHERE, Commits(), **limits)


@pytest.mark.parametrize(
    "option", [{"op_linger_ms": "10"}, {"op_linger_ms": -1}, {"op_max_bytes": None}]
)
def test_how_ops_are_packed_is_checked(option: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"{next(iter(option))} is .*; give a whole number"):
        TransactionProducer("orders", NOWHERE, Commits(), **option)
    with pytest.raises(SettingsError, match=f"{next(iter(option))} is .*; give a whole number"):
        TransactionAgent("orders", NOWHERE, Commits(), **option)


@pytest.mark.parametrize("timeout", ["10", 0, True])
def test_the_time_to_wait_for_kafka_is_checked(timeout: Any) -> None:
    with pytest.raises(SettingsError, match="send_timeout_ms is"):
        TransactionProducer("orders", NOWHERE, Commits(), send_timeout_ms=timeout)


def test_secrets_are_in_no_repr() -> None:
    agent = TransactionAgent("orders", NOWHERE, Commits(), kafka={"sasl.password": "hunter2"})
    assert "orders" in repr(agent)
    assert "hunter2" not in repr(agent)


class Asynchronous:
    async def check_local_transaction(self, message: Message) -> None: ...


@pytest.mark.parametrize(
    ("listener", "why"),
    [
        (object(), "no method check_local"),
        (Asynchronous(), "is async"),
        (Commits, r"the class Commits; give .* Commits\(\)"),
    ],
)
def test_a_listener_that_can_not_be_asked_is_refused(listener: Any, why: str) -> None:
    with pytest.raises(ListenerError, match=why):
        TransactionProducer("orders", NOWHERE, listener)
    with pytest.raises(ListenerError, match=why):
        TransactionAgent("orders", NOWHERE, listener)


@pytest.mark.parametrize("said", [None, "COMMIT_MESSAGE", True, 1, object()])
def test_anything_but_a_status_is_unknown_with_a_remark(said: Any) -> None:
    answer = call_listener(lambda: said)
    assert answer.state is TransactionStatus.UNKNOWN
    assert type(said).__name__ in (answer.remark or "")


def test_an_exception_is_unknown_with_a_remark() -> None:
    def fails() -> None:
        raise KeyError("no such order")

    answer = call_listener(fails)
    assert answer.state is TransactionStatus.UNKNOWN
    assert answer.remark == "fails raised KeyError"  # no text: it may quote data


@pytest.mark.parametrize("error", [KeyError, StopIteration])
def test_an_exception_in_the_thread_of_a_task_is_unknown_with_a_remark(
    error: type[Exception],
) -> None:
    def fails() -> None:
        raise error

    answer = asyncio.run(asyncio.wait_for(call_listener_in_loop(fails), 5))
    assert answer == (TransactionStatus.UNKNOWN, f"fails raised {error.__name__}")


def test_a_listener_is_loaded_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_listener.py").write_text(
        "class Shop:\n    def check_local_transaction(self, message): ...\n"
        "class Needs(Shop):\n    def __init__(self, database): ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert type(load_listener("shop_listener:Shop")).__name__ == "Shop"
    for path, why in {
        "shop_listener": "give package.module:Class",
        "shop_listener:Missing": "has no attribute",
        "no_such_module:Shop": "No module named",
        "shop_listener:Needs": "made without arguments",
    }.items():
        with pytest.raises(ListenerError, match=why):
            load_listener(path)
