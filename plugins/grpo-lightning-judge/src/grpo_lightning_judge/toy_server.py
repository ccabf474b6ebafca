"""A judge without a model: a server that answers by a rule, with noise. For trying configurations, and for tests.

``python -m grpo_lightning_judge.toy_server --port 8011`` serves it until it is ended.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

log = logging.getLogger(__name__)

LIKED = "m"
"""The letter that the toy judge likes, which no prompt tells."""
PLACES = 6


def quality(completions: Sequence[str]) -> list[float]:
    """Mean over the first six places of how near the letter is to ``m``: ``1 - distance / 13``; 0 for all but small letters.

    Example:
        >>> quality(["mmmmmm", "mmm", "nnnnnn", "MM77"])
        [1.0, 0.5, 0.9230769230769231, 0.0]
    """
    return [_quality(completion) for completion in completions]


def _quality(text: str) -> float:
    letters = [letter for letter in text[:PLACES] if "a" <= letter <= "z"]
    return sum(13 - abs(ord(letter) - ord(LIKED)) for letter in letters) / (13 * PLACES)


class ToyJudge:
    """Answers questions of this package's templates by a rule.

    Args:
        flips: Share of comparisons that name the wrong one, drawn from a hash of the question and of its seed.
        rule: What it judges by: a quality in [0, 1] of each of some texts.
    """

    def __init__(self, *, flips: float = 0.0, rule: Callable[[Sequence[str]], list[float]] = quality) -> None:
        self.flips, self.rule = flips, rule

    def answer(self, messages: Sequence[dict[str, str]], seed: int | None) -> str:
        """What it writes in answer to a conversation."""
        question = next(message["content"] for message in messages if message["role"] == "user")
        texts = quoted_texts(question)
        if "A" in texts and "B" in texts:
            return json.dumps({"winner": self._winner(texts["A"], texts["B"], f"{seed} {question}")})
        listed = [texts[name] for name in sorted(texts, key=_number) if name.startswith("RESPONSE ")]
        if listed:
            grades = self.rule(listed)
            order = sorted(range(len(listed)), key=lambda index: -grades[index])
            return json.dumps({"ranking": [index + 1 for index in order]})
        grade = self.rule([texts.get("COMPLETION", "")])[0]
        marks = re.search(r"has the (\d+) marks", question)
        if marks:
            return json.dumps({"marks": [(grade > 2 / 3) - (grade < 1 / 3)] * int(marks[1])})
        low, high = (float(found) for found in _scale(question))
        return json.dumps({"score": low + (high - low) * grade})

    def _winner(self, a: str, b: str, address: str) -> str:
        grade_a, grade_b = self.rule([a, b])
        draw = int.from_bytes(hashlib.sha256(address.encode("utf-8", "replace")).digest()[:6], "big") / 2**48
        if grade_a == grade_b:
            return "tie"
        return "A" if (grade_a > grade_b) != (draw < self.flips) else "B"


def quoted_texts(question: str) -> dict[str, str]:
    """The quoted texts of a question by their titles, such as ``A`` or ``RESPONSE 2``."""
    found = re.finditer(r"^<<<([0-9a-f]{12}) ([^\n]*)\n(.*?)\n\1>>>$", question, re.DOTALL | re.MULTILINE)
    return {match[2]: match[3] for match in found}


def _scale(question: str) -> tuple[str, str]:
    found = re.search(r"from (-?[\d.]+) \(.*? to (-?[\d.]+)\s", question, re.DOTALL)
    return (found[1], found[2]) if found else ("0", "10")


def _number(title: str) -> int:
    last = title.rpartition(" ")[2]
    return int(last) if last.isdigit() else 0


class ToyServer:
    """A server on loopback with a judge behind it, from construction to :meth:`close`.

    Args:
        judge: Who answers.
        port: Port; 0 for a free one.
        delay: Seconds that each answer takes.
    """

    def __init__(self, judge: ToyJudge | None = None, *, port: int = 0, delay: float = 0.0) -> None:
        self.judge, self.delay = judge or ToyJudge(), delay
        self.bodies: list[dict[str, Any]] = []
        """Bodies of the requests so far."""
        self.starts: list[float] = []
        """When each began, by ``time.monotonic``."""
        self.busiest = 0
        """Most requests that ran at once."""
        self._running, self._lock = 0, threading.Lock()
        self._server = _Server(("127.0.0.1", port), _handler(self))
        threading.Thread(target=self._server.serve_forever, name="toy judge", daemon=True).start()

    @property
    def base_url(self) -> str:
        """Its address, as ``base_url`` of a judge."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def respond(self, body: dict[str, Any]) -> dict[str, Any]:
        """The chat completion for a request."""
        with self._lock:
            self.bodies.append(body)
            self.starts.append(time.monotonic())
            self._running += 1
            self.busiest = max(self.busiest, self._running)
        time.sleep(self.delay)
        try:
            return chat_completion(self.judge.answer(body["messages"], body.get("seed")))
        finally:
            with self._lock:
                self._running -= 1


def chat_completion(text: str) -> dict[str, Any]:
    """A chat completion with one choice."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {"id": "toy", "object": "chat.completion", "created": 0, "model": "toy", "choices": [choice]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler(server: ToyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            # Small answers on a kept connection wait 40 ms for an acknowledgement otherwise.
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            super().setup()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            content = json.dumps(server.respond(body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            log.debug(format, *arguments)

    return Handler


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="Serve a judge that answers by a rule, with noise.")
    parser.add_argument("--port", type=int, default=8011)
    parser.add_argument("--flips", type=float, default=0.15, help="share of comparisons that name the wrong one")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    server = ToyServer(ToyJudge(flips=arguments.flips), port=arguments.port)
    log.info("toy judge at %s, %g of comparisons flipped", server.base_url, arguments.flips)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.close()


if __name__ == "__main__":
    main()
