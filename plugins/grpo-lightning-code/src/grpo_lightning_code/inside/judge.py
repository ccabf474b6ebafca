"""The verdict on a candidate, in a process that the candidate cannot reach."""

from __future__ import annotations

import builtins
import math
import os
import signal
from collections.abc import Callable
from importlib import import_module
from typing import Any

from grpo_lightning_code.inside.remote import Candidate, CandidateGone
from grpo_lightning_code.inside.waiting import wait_for
from grpo_lightning_code.inside.wire import Channel

Start = Callable[[str, tuple[int, ...]], int]
_OWN_MODULES = frozenset(
    ["cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "itertools", "json", "math",
     "operator", "os", "random", "re", "string", "sys", "typing"]
)  # fmt: skip
"""Names that are always the real modules in a test, whatever the candidate calls so."""
_GRACE = 0.2
_SYNTAX = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError)


def judge(job: dict[str, Any], start: Start) -> dict[str, Any]:
    """Run a candidate and say what came of it.

    Args:
        job: ``source``, and ``test`` (``None``: the program is only run, and its output judged elsewhere).
        start: Starts the candidate's process.

    Returns:
        ``status`` (``ended``, ``passed``, ``failed``, ``error``, ``memory``, ``timeout``, ``killed``) with ``detail``,
        the ``exit`` code of the candidate's process, and whether its ``syntax`` is right.
    """
    try:
        compile(job["source"], "candidate.py", "exec", dont_inherit=True)
    except _SYNTAX as error:
        return {"status": "error", "detail": _describe(error), "exit": None, "syntax": False}
    if job["test"] is None:
        verdict: dict[str, Any] = {"status": "ended", "detail": ""}
        with open("program.py", "w", encoding="utf-8", errors="surrogatepass") as stream:
            stream.write(job["source"])
        child = start("program", ())
        code, seconds, _ = wait_for(child)
    else:
        verdict, code, seconds = _judge_test(job, start)
    if code < 0 and verdict["status"] in ("ended", "error"):
        out_of_time = -code == signal.SIGXCPU or seconds >= job["limits"]["cpu_seconds"]
        verdict["status"] = "timeout" if out_of_time else "killed"
        verdict["detail"] = f"ended by signal {-code} after {seconds:.1f} s of CPU time"
    return {**verdict, "exit": code, "syntax": True}


def _judge_test(job: dict[str, Any], start: Start) -> tuple[dict[str, Any], int, float]:
    requests_out, requests_in = os.pipe()
    answers_out, answers_in = os.pipe()
    child = start("candidate", (requests_out, answers_in))
    os.close(requests_out)
    os.close(answers_in)
    candidate = Candidate(Channel(answers_out, requests_in))
    try:
        verdict = _try(candidate, job["source"], job["test"])
    finally:
        os.close(requests_in)
        os.close(answers_out)
    code, seconds, killed_here = wait_for(child, _GRACE)
    return verdict, 0 if killed_here else code, seconds


def _try(candidate: Candidate, source: str, test: dict[str, Any]) -> dict[str, Any]:
    """Load the candidate and put it to one test."""
    try:
        candidate.ask("load", source)
        passed = _run(test["source"], candidate) if "source" in test else _call(test, candidate)
        status, detail = ("passed", "") if passed else ("failed", "not the expected value")
    except AssertionError as error:
        status, detail = "failed", _describe(error)
    except CandidateGone as error:
        status, detail = "error", str(error)
    except MemoryError as error:
        status, detail = "memory", _describe(error)
    except BaseException as error:
        status, detail = "error", _describe(error)
    if candidate.gone and status == "passed":
        status, detail = "error", "the process ended during the test"
    return {"status": status, "detail": detail}


def _run(source: str, candidate: Candidate) -> bool:
    """Whether statements run to their end; they see the candidate's names."""
    names = Names(candidate)
    exec(compile(source, "test.py", "exec", dont_inherit=True), names)
    return True


def _call(test: dict[str, Any], candidate: Candidate) -> bool:
    """Whether a call returns what is expected."""
    if not candidate.ask("name", test["function"]):
        raise NameError(f"the candidate defines no {test['function']}")
    function = candidate.ask("value", test["function"])
    returned = function(*test["args"], **test["kwargs"])
    return equal(returned, test["expected"], test["tolerance"])


def equal(left: Any, right: Any, tolerance: float) -> bool:
    """Equality of plain data as JSON knows it: tuples are lists, and a finite number may differ from the expected one,
    ``right``, by ``tolerance`` (relative beyond 1). A truth value equals only a truth value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        if left == right:
            return True
        finite = all(isinstance(each, int) or math.isfinite(each) for each in (left, right))
        return finite and bool(abs(left - right) <= tolerance * max(1.0, abs(right)))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(equal(one, other, tolerance) for one, other in pairs)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key], tolerance) for key in left)
    return bool(left == right)


class Names(dict[str, Any]):
    """The global names of a test: its own, Python's, then the candidate's as they are at that moment.

    Args:
        candidate: Who is asked.
    """

    def __init__(self, candidate: Candidate) -> None:
        super().__init__(__name__="test", __builtins__=builtins)
        self._candidate = candidate

    def __missing__(self, name: str) -> Any:
        if name in _OWN_MODULES:
            return import_module(name)
        if hasattr(builtins, name) or not self._candidate.ask("name", name):
            raise KeyError(name)
        return self._candidate.ask("value", name)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
