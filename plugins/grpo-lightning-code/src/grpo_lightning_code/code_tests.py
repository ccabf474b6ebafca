"""Share of unit tests that written code passes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning_code.cases import Test, read_tests
from grpo_lightning_code.extraction import WHERE, Where, extract_code
from grpo_lightning_code.grading import grade
from grpo_lightning_code.sandbox import Limits, require_sandbox

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Job:
    """Code and what it is put to."""

    code: str | None
    tests: tuple[Test, ...]


class CodeTests(Reward):
    """Share of its unit tests that the Python code in a completion passes: ``passed / tests``, in [0, 1].

    Every test runs in a sandbox of its own: other process, user, network and file system, with limits. Rows with equal
    code and tests share one run. A row with ``None`` in the column of tests abstains; a completion without code scores
    0. The README of grpo-lightning-code has the forms of tests, and what the sandbox does not protect against.

    Args:
        column: Column with the tests of a row: a list of Python statements such as asserts, of ``{stdin, stdout}``, or
            of ``{function, args, expected}``.
        code: Where a completion's code is: ``block`` (the last closed fenced block), ``opened`` (the prompt has opened the
            block, so that the code ends at the first fence) or ``whole``.
        languages: Words after an opening fence that count; the empty one is a fence without a word.
        before: Column with text to put before the code, such as the start of a function that the prompt gives.
        grade: ``share`` of the tests passed, or ``all``: 1 if every one is, else 0.
        tolerance: Difference of numbers in results of ``{function, args, expected}`` that is none, relative beyond 1.
        workers: Completions that are tested at once.
        seconds: Time that a test may take.
        total_seconds: Time that all tests of a completion may take.
        memory_mb: Address space of a process, in MiB.
        disk_mb: Size of the temporary folder, in MiB.
        output_kb: Output that a test may write, in KiB.
        processes: Processes and threads at once; with 1 the code can start none.

    Example:
        >>> reward = CodeTests(code="whole", workers=1)
        >>> reward.score(completions=["def f(x): return 2 * x"], tests=[["assert f(2) == 4", "assert f(0) == 1"]])
        [0.5]
    """

    name = "code_tests"
    deterministic: ClassVar[bool] = False  # code may draw numbers, look at the clock, or be near a limit of time
    example: ClassVar[dict[str, Any]] = {"code": "whole", "workers": 1}
    example_columns: ClassVar[dict[str, Sequence[Any]]] = {"tests": [["assert True"]]}

    def __init__(
        self,
        *,
        column: str = "tests",
        code: Where = "block",
        languages: list[str] | None = None,
        before: str | None = None,
        grade: Literal["share", "all"] = "share",
        tolerance: float = 0.0,
        workers: int = 2,
        seconds: float = 5.0,
        total_seconds: float = 30.0,
        memory_mb: int = 256,
        disk_mb: int = 16,
        output_kb: int = 64,
        processes: int = 1,
    ) -> None:
        require(code in WHERE, "code", code, "is no place", "set block, opened or whole")
        require(grade in ("share", "all"), "grade", grade, "is no grade", "set share or all")
        require_range("tolerance", tolerance, low=0, high_open=True)
        require_range("seconds", seconds, low=0, low_open=True, high_open=True)
        require_range("total_seconds", total_seconds, low=0, low_open=True, high_open=True)
        require_range("memory_mb", memory_mb, low=64)
        for setting, value in {"workers": workers, "disk_mb": disk_mb, "output_kb": output_kb}.items():
            require_range(setting, value, low=1)
        require_range("processes", processes, low=1, high=1024)
        self.column, self.before, self.code, self.workers = column, before, code, workers
        self.languages = ["python", "python3", "py", ""] if languages is None else [each.lower() for each in languages]
        self.grade, self.tolerance, self.total_seconds = grade, tolerance, total_seconds
        self.limits = Limits(
            wall_seconds=float(seconds),
            cpu_seconds=max(1, int(-(-seconds // 1))),
            memory_bytes=memory_mb << 20,
            disk_bytes=disk_mb << 20,
            output_bytes=output_kb << 10,
            processes=processes,
        )

    @override
    def columns(self) -> list[str]:
        return [self.column] if self.before is None else [self.column, self.before]

    @override
    def setup(self) -> None:
        """Prove that this machine holds the limits.

        Raises:
            SandboxUnavailable: If it does not: which limit, and why.
        """
        require_sandbox(self.limits)

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row; ``None`` where the row has no tests.

        Raises:
            DataError: If the column holds something that is no test.
            SandboxUnavailable: If this machine does not hold the limits.
            SandboxError: If a sandbox cannot be set up.
        """
        require_sandbox(self.limits)
        before = columns[self.before] if self.before is not None else [""] * len(completions)
        rows = [self._job(*row) for row in zip(completions, columns[self.column], before, strict=True)]
        jobs = {repr(row): row for row in rows if row is not None}  # by text: 1, 1.0 and True are different tests
        counted: Counter[str] = Counter()
        with ThreadPoolExecutor(self.workers, thread_name_prefix="code_tests") as pool:
            scores = dict(zip(jobs, pool.map(lambda job: self._score(job, counted), jobs.values()), strict=True))
        log.debug("tests: %s", ", ".join(f"{number} {status}" for status, number in sorted(counted.items())))
        return [None if row is None else scores[repr(row)] for row in rows]

    @override
    def answer(self, completion: str) -> str:
        """The code, without outer space; empty where there is none."""
        return (extract_code(completion, where=self.code, languages=self.languages) or "").strip()

    def _job(self, completion: str, tests: Any, before: str | None) -> _Job | None:
        if tests is None:
            return None
        code = extract_code(completion, where=self.code, languages=self.languages)
        return _Job(None if code is None else (before or "") + code, tuple(read_tests(tests, self.column)))

    def _score(self, job: _Job, counted: Counter[str]) -> float:
        if job.code is None:
            counted["without code"] += len(job.tests)
            return 0.0
        verdicts = grade(
            job.code,
            job.tests,
            self.limits,
            total_seconds=self.total_seconds,
            tolerance=self.tolerance,
            all_needed=self.grade == "all",
        )
        for verdict in verdicts:
            counted[verdict.status] += 1
            log.debug("%s %s", verdict.status, verdict.detail)
        passed = sum(verdict.status == "passed" for verdict in verdicts)
        return float(passed == len(job.tests)) if self.grade == "all" else passed / len(job.tests)
