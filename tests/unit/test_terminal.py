"""What commands that run Spark leave out of what they write to the terminal."""

from __future__ import annotations

import subprocess
import sys

# py4j asks a JVM that ends while it is asked; what it says of that comes by the root logger.
SCRIPT = """
import logging, socket, threading
from py4j.java_gateway import GatewayClient, GatewayParameters
from resolver.cli.up import log_to_terminal

def die():
    server.accept()[0].close()

log_to_terminal(logging.INFO)
with socket.create_server(("127.0.0.1", 0)) as server:
    jvm = threading.Thread(target=die)
    jvm.start()
    client = GatewayClient(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
    assert client.send_command("r\\nu\\ne\\n", retry=False) == "x"
    jvm.join()
logging.getLogger("resolver").info("ours")
logging.getLogger("confluent_kafka").warning("another's")
"""


def test_of_a_jvm_that_ends_only_what_we_say_is_seen() -> None:
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT], stderr=subprocess.PIPE, text=True, check=True, timeout=60
    ).stderr
    told = [line.split(" ", 2)[2] for line in said.splitlines()]
    assert told == ["INFO ours", "WARNING another's"]
