"""Kafka's own command-line tools, from the jars of its release."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NoReturn

from ..errors import SettingsError
from .jars import kafka_classpath, tools_classpath
from .java import find_java

#: Names as in Kafka's `kafka-NAME.sh`, and the classes behind them.
TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
}
SERVERS = "--bootstrap-server"


def run_tool(name: str, arguments: Sequence[str], servers: str) -> NoReturn:
    """Become the tool, which then gets our signals; `servers` are its brokers unless it has some.

    Raises `SettingsError` for a tool that is not known, or without brokers.
    """
    if name not in TOOLS:
        raise SettingsError(
            f"{name!r} is no tool of Kafka's here", remedy=f"give one of {', '.join(TOOLS)}"
        )
    options = {argument.partition("=")[0] for argument in arguments}
    if options.isdisjoint((SERVERS, "--help", "--version")):
        if not servers:
            raise SettingsError(
                "no embedded broker runs here",
                remedy=f"start `txresolver up`, or give {SERVERS} HOST:PORT",
            )
        arguments = [SERVERS, servers, *arguments]
    java = str(find_java())
    jars = os.pathsep.join(map(str, [*kafka_classpath(), *tools_classpath()]))
    command = [java, "-Xmx256m", "-cp", jars, TOOLS[name], *arguments]
    os.execv(java, command)  # noqa: S606 - no shell reads the arguments
