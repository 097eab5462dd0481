"""What commands that run Spark leave out of what they write to the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import PATIENCE_SECONDS

# py4j asks a JVM that ends while it is asked; what it says of that comes by the root logger.
SCRIPT = """
import logging, socket, threading
from py4j.java_gateway import GatewayClient, GatewayParameters
from resolver.cli.terminal import log_to_terminal

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


# A client without a logger writes raw lines by itself, one with a logger by Python's logging.
CLIENTS = """
import logging, sys
from pathlib import Path
from confluent_kafka import Consumer
from resolver.cli.terminal import terminal

nobody = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 7}
with terminal(Path(sys.argv[1]), logging.INFO):
    raw = Consumer(nobody)
    logging_one = Consumer({**nobody, "logger": logging.getLogger("resolver.librdkafka")})
    while not all(word in Path(sys.argv[2]).read_text() for word in ("%3|", " ERROR ")):
        raw.poll(0.1)
        logging_one.poll(0.1)
    raw.close()
    logging_one.close()
    logging.getLogger("resolver").info("ours")
"""


def test_lines_of_librdkafka_go_to_a_file_of_the_home(tmp_path: Path) -> None:
    """The script ends when both clients' lines are in the file."""
    said = _run(CLIENTS, str(tmp_path), str(tmp_path / "logs" / "libraries.log"))
    assert [line.split(" ", 2)[2] for line in said.splitlines()] == ["INFO ours"]


def test_beside_no_home_they_go_to_the_users_cache(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "libraries.log"
    said = _run(
        CLIENTS, str(tmp_path / "none"), str(log), TXRESOLVER_JAR_CACHE=str(tmp_path / "jars")
    )
    assert [line.split(" ", 2)[2] for line in said.splitlines()] == ["INFO ours"]
    assert not (tmp_path / "none").exists()


def _run(script: str, *arguments: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, **env},
    ).stderr


def test_of_a_jvm_that_ends_only_what_we_say_is_seen() -> None:
    told = [line.split(" ", 2)[2] for line in _run(SCRIPT).splitlines()]
    assert told == ["INFO ours", "WARNING another's"]
