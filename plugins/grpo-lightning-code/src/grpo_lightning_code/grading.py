"""From one completion's code and tests to a verdict on each test."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grpo_lightning_code.cases import Program, Test
from grpo_lightning_code.sandbox import Limits, Status, run

_NO_TIME = 0.05


@dataclass(frozen=True)
class Verdict:
    """What came of one test."""

    status: Status
    """``passed``, ``failed``, ``error``, ``timeout``, ``memory``, ``output`` or ``killed``."""
    detail: str = ""
    """Why, for logs."""


def grade(
    code: str, tests: Sequence[Test], limits: Limits, *, total_seconds: float, tolerance: float, all_needed: bool
) -> list[Verdict]:
    """One verdict a test, in order; every test runs in a sandbox of its own.

    Args:
        code: The candidate.
        tests: Its tests.
        limits: Limits of each test.
        total_seconds: Time for all tests; those that it does not suffice for count as ``timeout``.
        tolerance: Difference of numbers that is none, for cases.
        all_needed: Stop at the first test that is not passed; the later ones share its verdict.

    Raises:
        SandboxError: If a sandbox cannot be set up.
    """
    ends = time.monotonic() + total_seconds
    verdicts: list[Verdict] = []
    for test in tests:
        left = ends - time.monotonic()
        if left < _NO_TIME:
            verdicts.append(Verdict("timeout", f"the {total_seconds:g} s for all tests were over"))
        else:
            verdict, hopeless = _try(
                code, test, replace(limits, wall_seconds=min(limits.wall_seconds, left)), tolerance
            )
            verdicts.append(verdict)
            if hopeless or (all_needed and verdict.status != "passed"):
                break
    return verdicts + [verdicts[-1]] * (len(tests) - len(verdicts))


def _try(code: str, test: Test, limits: Limits, tolerance: float) -> tuple[Verdict, bool]:
    """The verdict, and whether every other test would have the same: where the code is no Python."""
    outcome = run(test.job(code, tolerance=tolerance), limits)
    verdict = Verdict(outcome.status, outcome.detail)
    if isinstance(test, Program) and outcome.status == "ended":
        accepted = test.accepts(outcome.stdout)
        verdict = Verdict("passed") if accepted else Verdict("failed", "not the expected output")
    return verdict, not outcome.syntax_ok
