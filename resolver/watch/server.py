"""Serves `/metrics`, `/livez` and `/readyz` over HTTP, with a registry of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ..errors import SettingsError
from .health import Health

_TEXT = "text/plain; charset=utf-8"
#: Time in seconds for a client to send its request: without it a silent client keeps a thread.
_REQUEST_SECONDS = 10

_log = logging.getLogger(__name__)


class Server:
    """An HTTP server on `address` (host:port), in threads of its own."""

    def __init__(self, address: str, registry: CollectorRegistry, health: Health) -> None:
        self._host, _, port = address.rpartition(":")
        try:
            self._http = _Http((self._host, int(port)), _handler(registry, health))
        except OSError as error:
            raise SettingsError(
                f"metrics can't be served at {address}: {error.strerror or error}",
                remedy="give another address, or none, which serves no metrics",
            ) from error
        self._thread = threading.Thread(
            target=self._http.serve_forever, name="txresolver-watch", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens; a port 0 was replaced by a free port."""
        return f"http://{self._host}:{self._http.server_address[1]}"

    def stop(self) -> None:
        """Serve no more."""
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a scrape that was broken off; the library would write a traceback to stderr."""
        _log.debug("a request from %s was broken off", client_address, exc_info=True)


def _handler(registry: CollectorRegistry, health: Health) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_SECONDS

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, kind, encode(registry))
            elif path in _CHECKS:
                why = _CHECKS[path](health)
                self._answer(503 if why else 200, _TEXT, f"{why or 'ok'}\n".encode())
            else:
                self._answer(404, _TEXT, b"there are /metrics, /livez and /readyz\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of each scrape."""

    return Handler


_CHECKS: dict[str, Callable[[Health], str]] = {
    "/livez": Health.not_live,
    "/readyz": Health.not_ready,
}
