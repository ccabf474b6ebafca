"""What a worker process does: unpickle a reward, and answer calls."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from typing import Any

from grpo_lightning.rewards import wire


def serve(requests: int, replies: int) -> None:
    """Answer calls until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv = sys.argv[:1]
    try:
        reward, answer = _load(wire.receive(requests)), {"process": os.getpid()}
    except BaseException as error:
        answer = _told(error)
    wire.send(replies, _json(answer))
    if "process" not in answer:
        return
    from grpo_lightning.rewards.threads import OwnLoop

    loop, own, number = OwnLoop(), os.getpid(), 0
    while True:
        number += 1
        try:
            call = pickle.loads(wire.receive(requests))
            answer = _answer(reward, call, loop)
        except EOFError:
            return
        except BaseException as error:  # arguments of a class that cannot be made here
            answer = _told(error)
        if os.getpid() != own:  # a fork that the reward made and let go on: it has nothing to say here
            os._exit(0)
        wire.send(replies, _json({**answer, "number": number}))


def _load(pickled: bytes) -> Any:
    import torch

    torch.set_grad_enabled(False)
    reward = pickle.loads(pickled)
    reward.setup()
    return reward


def _answer(reward: Any, call: dict[str, Any], loop: Any) -> dict[str, Any]:
    import inspect

    import torch

    from grpo_lightning.rewards.scores import InvalidScore, read_rows

    torch.set_grad_enabled(False)  # an earlier call may have changed it
    try:
        returned = reward.score(**call["arguments"])
        rows = read_rows(loop(returned) if inspect.isawaitable(returned) else returned, call["turns"])
    except BaseException as error:  # SystemExit too: it is the reward that is wrong, not the process
        return _told(error)
    return {
        "rows": [
            {"kind": row.kind, "text": str(row)}
            if isinstance(row, InvalidScore)
            else {"total": row.total, "turns": row.turns, "epsilon": row.epsilon}
            for row in rows
        ]
    }


def _told(error: BaseException) -> dict[str, Any]:
    """An exception in words, for it may be of a class that the other side cannot make."""
    from grpo_lightning.errors import ConfigError, DataError
    from grpo_lightning.rewards.failures import what_was_raised

    if isinstance(error, ConfigError):
        value = error.value if isinstance(error.value, str | int | float | None) else repr(error.value)
        return {"config": [error.setting, value, error.reason, error.fix], "data": isinstance(error, DataError)}
    return {"raised": what_was_raised(error)}


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode()
