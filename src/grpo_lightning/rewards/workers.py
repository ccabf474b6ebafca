"""Calls in a worker process, which is killed where a call hangs."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import pickletools
import subprocess
import sys
import threading
import time
from typing import Any

from grpo_lightning.errors import ConfigError, DataError, RewardError
from grpo_lightning.rewards import failures, wire
from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.calls import Call
from grpo_lightning.rewards.process_tree import kill_group
from grpo_lightning.rewards.scores import FAILURE_KINDS, FLOAT64_EPSILON, InvalidScore, RowResult, RowScore, parse_row

log = logging.getLogger(__name__)

START_SECONDS = 600.0
"""Limit on starting a worker, ``setup`` of its reward included."""
END_SECONDS = 10.0
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from grpo_lightning.rewards.worker import end, main; end(main(sys.argv[2:]))"
)


def pickled(reward: Reward) -> bytes:
    """The reward as a worker gets it.

    Raises:
        ConfigError: If it cannot be pickled, or a worker could not find its code.
    """
    fix = "move it to a module of its own, or set isolation to thread"
    try:
        data = pickle.dumps(reward)
    except Exception as error:
        reason = f"cannot be sent to a worker process ({type(error).__name__}: {error})"
        raise ConfigError("isolation", "process", f"is set, but reward {reward.label!r} {reason}", fix) from None
    if any(argument == "__main__" for _, argument, _ in pickletools.genops(data)):
        reason = (
            f"is set, but reward {reward.label!r} is defined in the script that is run, which a worker does not import"
        )
        raise ConfigError("isolation", "process", reason, fix)
    return data


class WorkerPlace:
    """Runs one call at a time in a worker process of its own, which is started at need and replaced when it is lost.

    Args:
        reward: The reward, pickled.
        name: Its name.
    """

    def __init__(self, reward: bytes, name: str) -> None:
        self._reward, self.name = reward, name
        self._worker: _Worker | None = None
        self._lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start the worker and wait until its reward is set up.

        Raises:
            ConfigError: If the reward's ``setup`` raises it.
            RewardError: If it does not get that far.
        """
        if self._worker is not None:
            return
        with self._lock:
            if self._closed:
                raise RewardError(f"reward {self.name!r} was closed")
            worker = self._worker = _Worker()
        try:
            answer = worker.ask(self._reward, time.monotonic() + START_SECONDS)
        except wire.Late:
            self._drop()
            raise RewardError(f"reward {self.name!r}: its worker did not start within {START_SECONDS:g} s") from None
        except (OSError, EOFError, ValueError):
            raise RewardError(
                f"reward {self.name!r} {failures.how_it_ended(self._drop(True))} while it started"
            ) from None
        if "process" not in answer:
            self._drop()
            _raise_config(answer)
            raise RewardError(f"reward {self.name!r}: setup in a worker process {answer.get('raised')}")
        worker.session = int(answer["process"])

    def run(self, call: Call) -> list[RowResult]:
        """What the call gives each row.

        Raises:
            ConfigError: If the reward raises it.
        """
        turns = call.turns
        try:
            message = pickle.dumps({"arguments": call.arguments(), "turns": turns})
        except ConfigError:
            raise
        except Exception as error:
            text = f"cannot be called in a process: its arguments cannot be pickled ({type(error).__name__}: {error})"
            return failures.all_rows(len(turns), text, "raised", error)
        try:
            self.start()
        except RewardError as error:
            return failures.all_rows(
                len(turns), str(error).removeprefix(f"reward {self.name!r}").lstrip(": "), "crashed"
            )
        assert self._worker is not None
        timeout = call.entry.timeout
        try:
            answer = self._worker.ask(message, None if timeout is None else time.monotonic() + timeout)
        except wire.Late:
            self._drop()
            return failures.timed_out(timeout, len(turns))
        except (OSError, EOFError):
            return failures.all_rows(len(turns), failures.how_it_ended(self._drop(True)), "crashed")
        except ValueError:
            self._drop()
            return failures.all_rows(len(turns), "gave an answer that cannot be read", "crashed")
        _raise_config(answer)
        return _rows(answer, turns)

    def _drop(self, ended: bool = False) -> int | None:
        """Kill the worker; the exit code of its process where that had ended by itself."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is None:
            return None
        code = worker.exit_code() if ended else None
        worker.kill()
        worker.close()
        return code

    def interrupt(self) -> None:
        """Let :meth:`run` return now, by killing the worker for good."""
        with self._lock:
            self._closed, worker = True, self._worker
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """Kill the worker; :meth:`run` must not be running."""
        self.interrupt()
        self._drop()


class _Worker:
    """The keeper process and the pipes to what it keeps."""

    def __init__(self) -> None:
        request_out, self._requests = os.pipe()
        self._replies, reply_in = os.pipe()
        life_out, self._life = os.pipe()
        self._lock = threading.Lock()
        self._asked = 0
        """Calls that it has answered, from the reward's setup on."""
        self.session: int | None = None
        """Process that runs the reward, the leader of its session."""
        theirs = (request_out, reply_in, life_out)
        command = [sys.executable, "-c", _BOOT, json.dumps(sys.path), *map(str, theirs)]
        try:
            # What a reward prints goes to standard error: standard output may be read by a program.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=theirs,
                start_new_session=True,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            )
        finally:
            for pipe in theirs:
                os.close(pipe)
        for pipe in (self._requests, self._replies):
            os.set_blocking(pipe, False)

    def ask(self, message: bytes, until: float | None) -> dict[str, Any]:
        """The answer to a message.

        Raises:
            Late: If it takes longer than until ``until``, by ``time.monotonic``.
            OSError: If the worker is gone; or ``EOFError``, or ``ValueError`` if it answers nonsense.
        """
        wire.send(self._requests, message, until)
        answer = json.loads(wire.receive(self._replies, until))
        if not isinstance(answer, dict) or answer.get("number", 0) != self._asked:
            raise ValueError("no answer to what was asked")
        self._asked += 1
        return answer

    def exit_code(self) -> int | None:
        """How a worker that has closed its pipe ended."""
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill it with all that it started. Its pipes stay, for another thread may be reading."""
        with self._lock:
            life, self._life = self._life, -1
        if life >= 0:
            # Said as well as shown: another process may have inherited this end, and then its closing is not seen.
            with contextlib.suppress(OSError):
                os.write(life, b"end")
            os.close(life)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:  # somebody has stopped the keeper
            self._process.kill()
            self._process.wait()
            if self.session is not None:
                kill_group(self.session)

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self._requests, self._replies):
            os.close(pipe)


def _raise_config(answer: dict[str, Any]) -> None:
    if "config" in answer:
        setting, value, reason, fix = answer["config"]
        raise (DataError if answer.get("data") else ConfigError)(str(setting), value, str(reason), str(fix))


def _rows(answer: dict[str, Any], turns: list[int]) -> list[RowResult]:
    """The results in an answer, checked here again: the other side ran a stranger's code."""
    rows = answer.get("rows")
    if not isinstance(rows, list) or len(rows) != len(turns):
        text = str(answer.get("raised", "gave an answer that cannot be read"))
        return failures.all_rows(len(turns), text, "raised" if "raised" in answer else "crashed")
    return [_row(row, count) for row, count in zip(rows, turns, strict=True)]


def _row(row: Any, turns: int) -> RowResult:
    try:
        if "kind" in row:
            return InvalidScore(str(row["text"]), row["kind"] if row["kind"] in FAILURE_KINDS else "crashed")
        parsed = parse_row(row["total"] if row["turns"] is None else row["turns"], turns)
        return RowScore(parsed.total, parsed.turns, max(FLOAT64_EPSILON, float(row["epsilon"])))
    except InvalidScore as error:
        return error
    except (TypeError, KeyError, ValueError):
        return InvalidScore("gave an answer that cannot be read", "crashed")
