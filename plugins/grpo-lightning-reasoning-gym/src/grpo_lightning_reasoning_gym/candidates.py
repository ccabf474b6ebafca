"""An endless stream of questions of a task, the same in every process."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from hashlib import blake2b
from io import StringIO
from typing import Any

import numpy as np

from grpo_lightning.errors import DataError
from grpo_lightning_reasoning_gym.entry_json import from_json, to_json
from grpo_lightning_reasoning_gym.tasks import dataset

BLOCK = 500
"""Questions that one data set of the package is asked for. Fixed, for what some tasks ask depends on it."""
MOST_FAILURES = 20
"""Failures of a task in a row that are put up with."""
ORDER_DEPENDENT = frozenset(
    {
        "codeio",
        "isomorphic_strings",
        "knight_swap",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
    }
)
"""Tasks whose questions follow the order of a set of texts, which Python changes from process to process."""


def candidates(task: str, options: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Entries (``question``, ``answer``, ``metadata``) number 0, 1, ... of a task: a function of its arguments alone.

    Close it when enough were taken. Nothing that the process shares is changed by it.

    Raises:
        DataError: If the task fails again and again.
    """
    fixed = os.environ.get("PYTHONHASHSEED") == "0"
    return _here(task, options, seed) if fixed or task not in ORDER_DEPENDENT else _elsewhere(task, options, seed)


def _here(task: str, options: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Made in this process, in blocks that are seeded apart: the package's own seeds 0 and 1 share all but one entry."""
    failures, block = 0, 0
    while True:
        block_seed = _block_seed(task, seed, block)
        with _apart(block_seed):
            entries = dataset(task, options, seed=block_seed, size=BLOCK)
        for index in range(BLOCK):
            try:
                with _apart(block_seed + index):
                    entry: dict[str, Any] = entries[index]
            except Exception as error:  # tasks raise many things when a draw does not work out
                failures += 1
                if failures > MOST_FAILURES:
                    reason = f"could not make up a question {failures} times in a row ({type(error).__name__}: {error})"
                    raise DataError("task", task, reason, "change its level or options") from error
                if isinstance(error, IndexError):  # how a data set says that it is exhausted
                    break
            else:
                failures = 0
                yield entry
        block += 1


def _elsewhere(task: str, options: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Made in a process of its own, which orders sets in a fixed way."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": paths}
    order = to_json({"task": task, "options": dict(options), "seed": seed})
    with subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.candidates", order], env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
    ) as child:  # fmt: skip
        try:
            assert child.stdout is not None
            assert child.stderr is not None
            for line in child.stdout:
                told = json.loads(line)
                if "failed" in told:
                    raise DataError("task", task, told["failed"], "change its level or options")
                yield from_json(told["entry"])
            reason = f"ended the process that makes up its questions: {child.stderr.read()[-300:]}"
            raise DataError("task", task, reason, "change its level or options")
        finally:
            child.kill()


def _block_seed(task: str, seed: int, block: int) -> int:
    digest = blake2b(f"{task}/{seed}/{block}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 33  # 31 bits: numpy takes 32, and tasks add an index


@contextmanager
def _apart(seed: int) -> Iterator[None]:
    """Some tasks print, and some draw from the random numbers that the process shares: seeded here, and put back."""
    python, numbers = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)


def _serve(order: str) -> None:
    """Write entries as lines until nobody reads any more."""
    wanted, out = from_json(order), sys.stdout
    try:
        for entry in _here(wanted["task"], wanted["options"], wanted["seed"]):
            out.write(json.dumps({"entry": to_json(entry)}) + "\n")
            out.flush()
    except DataError as error:
        out.write(json.dumps({"failed": error.reason}) + "\n")
        out.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
