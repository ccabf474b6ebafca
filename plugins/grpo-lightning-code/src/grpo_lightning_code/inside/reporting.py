"""Lines of JSON from the sandbox's own processes to the trainer. No candidate has the descriptor that they go through."""

from __future__ import annotations

import json
import os
from typing import Any


class Report:
    """Writes what happened, one JSON object a line.

    Args:
        descriptor: Where to.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, message: dict[str, Any]) -> None:
        """Write one message whole."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.descriptor, data) :]

    def refuse(self, step: str, error: BaseException) -> None:
        """Say which step of making the sandbox the machine refused."""
        self.send({"refused": step, "reason": str(error) or type(error).__name__})
