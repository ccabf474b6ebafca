"""A server on loopback that answers with faults, in a given order."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from grpo_lightning_judge.toy_server import chat_completion

Fault = Callable[[BaseHTTPRequestHandler], None]


def reply(handler: BaseHTTPRequestHandler, body: bytes | dict[str, Any], status: int = 200, **headers: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in {"content-type": "application/json", **headers, "content-length": str(len(content))}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def says(text: str) -> Fault:
    return lambda handler: reply(handler, chat_completion(text))


def body(content: bytes, **headers: str) -> Fault:
    return lambda handler: reply(handler, content, **headers)


def status(code: int, message: str = "no", *, error_code: str | None = None, **headers: str) -> Fault:
    return lambda handler: reply(handler, {"error": {"message": message, "code": error_code}}, code, **headers)


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection in the middle of the body."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "500")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.wfile.flush()
    handler.close_connection = True


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3.0)


def drip(handler: BaseHTTPRequestHandler) -> None:
    """A byte every tenth of a second: never silent for long, never done."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", "500")
    handler.end_headers()
    for _ in range(30):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.1)


class FaultyServer:
    """Answers request number n with ``plan[n]``, and further ones with the last."""

    def __init__(self, *plan: Fault) -> None:
        self.plan: Sequence[Fault] = plan
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.starts: list[float] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with server._lock:
                    number = len(server.bodies)
                    server.bodies.append(content)
                    server.headers.append({name.lower(): value for name, value in self.headers.items()})
                    server.starts.append(time.monotonic())
                with contextlib.suppress(OSError):  # the client may have gone
                    server.plan[min(number, len(server.plan) - 1)](self)

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        return Handler
