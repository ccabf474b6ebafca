"""What a run needs of a server of vLLM, in this process: answers are a function of the seed, and faults come when asked for."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlparse


def token(seed: int, member: int, step: int) -> int:
    """What the server writes."""
    return (seed + 7 * member + 3 * step) % 11 + 1


def log_prob(seed: int, member: int, step: int) -> float:
    """How probable it says that was."""
    return -(1 + (seed + member + step) % 5) / 4


class FakeVLLM:
    """A server on a port of this machine."""

    def __init__(self, port: int = 0) -> None:
        self.version = "default"
        self.taken: list[str] = []
        """Files of weights that it was told to load."""
        self.adapters: dict[str, str] = {}
        """Folders of the adapters that it has, by name."""
        self.loaded: list[str] = []
        """Names of adapters that it was told to load."""
        self.calls: list[str] = []
        self.asked: list[dict[str, Any]] = []
        """Bodies of questions that were answered, with the ``weights`` that did."""
        self.gate = threading.Event()
        """Questions wait until it is set."""
        self.gate.set()
        self.faults: deque[str] = deque()
        """What the next questions meet: ``drop``, ``half``, ``short``, ``abort``, ``stale``, ``500`` or ``slow``."""
        self.paused = self.dead = False
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """It dies, and with it its open connections."""
        self.dead = True
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request that meets no fault."""
        self.calls.append(path)
        if path in ("/pause", "/resume"):
            self.paused = path == "/pause"
        elif path == "/update_weights":
            assert self.paused
            self.taken.append(body["update_info"]["path"])
        elif path == "/finish_weight_update":
            self.version = body["weight_version"]
        elif path == "/weight_info":
            return {"weight_version": self.version}
        elif path == "/v1/models":
            return {"data": [{"id": name} for name in ("base", *self.adapters)]}
        elif path == "/v1/load_lora_adapter":
            assert (Path(body["lora_path"]) / "adapter_config.json").exists()
            self.adapters[body["lora_name"]] = body["lora_path"]
            self.loaded.append(body["lora_name"])
        elif path == "/v1/unload_lora_adapter":
            del self.adapters[body["lora_name"]]
        elif path == "/inference/v1/generate":
            if body.get("model") not in (None, *self.adapters):
                return {"error": "The model does not exist."}
            self.gate.wait(20)
            self.asked.append(body | {"weights": self.version})
            return {
                "model": body.get("model"),
                "choices": [self.choice(body, member) for member in range(body["sampling_params"]["n"])],
            }
        return {}

    def choice(self, body: dict[str, Any], member: int) -> dict[str, Any]:
        """One completion: until a stop id, or its limit."""
        sampling = body["sampling_params"]
        tokens: list[int] = []
        while len(tokens) < sampling["max_tokens"] and not (tokens and tokens[-1] in sampling["stop_token_ids"]):
            tokens.append(token(sampling["seed"], member, len(tokens)))
        steps = [{"token_id": each, "logprob": log_prob(sampling["seed"], member, i)} for i, each in enumerate(tokens)]
        return {
            "index": member,
            "finish_reason": "stop" if tokens[-1] in sampling["stop_token_ids"] else "length",
            "token_ids": tokens,
            "logprobs": {"content": steps},
            "weight_versions": [{"version": self.version, "start": 0, "end": len(tokens)}],
        }


def _handler(server: FakeVLLM) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if server.dead:
                self._drop()
                return
            self._reply(server.answer(urlparse(self.path).path, {}))

        def do_POST(self) -> None:
            path = urlparse(self.path).path
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            fault = server.faults.popleft() if path == "/inference/v1/generate" and server.faults else ""
            if server.dead or fault == "drop":
                self._drop()
                return
            if fault == "slow":
                time.sleep(1.5)
            answer = server.answer(path, body)
            choices = answer.get("choices", [])
            if fault == "short":
                choices.pop()
            if fault == "abort":
                choices[0]["finish_reason"] = "abort"
            if fault == "stale":
                choices[0]["weight_versions"][0]["version"] = "another"
            if "error" in answer:
                self._reply(answer, status=404)
                return
            self._reply(answer, status=500 if fault == "500" else 200, half=fault == "half")

        def _drop(self) -> None:
            self.close_connection = True
            self.connection.close()

        def _reply(self, answer: dict[str, Any], *, status: int = 200, half: bool = False) -> None:
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text[: len(text) // 2] if half else text)
            if half:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            """Silence."""

    return Handler
