"""``docs/metrics.md`` lists what is logged, no more and no less."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from grpo_lightning.callbacks.rollout_metrics import rollout_distributions, rollout_metrics
from grpo_lightning.evaluation import EvaluationMetrics
from helpers.run_reports import rollout_report

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def rows() -> list[list[str]]:
    """The cells of the table's rows."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def documented_keys(when: str = "") -> list[str]:
    """The keys of the table, braces expanded, ``<...>`` left in; only those whose last column holds ``when``."""
    return [key for cells in rows() if when in cells[-1] for key in expanded(cells[0].strip("` "))]


def expanded(pattern: str) -> list[str]:
    """``a_{b,c}`` to ``a_b`` and ``a_c``, for every pair of braces."""
    parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
    return ["".join(choice) for choice in product(*parts)]


def documents(pattern: str, key: str) -> bool:
    """Whether a documented key covers a logged one; ``<...>`` stands for anything without a slash."""
    return re.fullmatch(re.sub(r"<\w+>", "[^/]+", re.sub(r"([.^+*?$()])", r"\\\1", pattern)), key) is not None


def undocumented(keys: set[str]) -> set[str]:
    """Logged keys that the table does not list."""
    return {key for key in keys if not any(documents(pattern, key) for pattern in documented_keys())}


def unlogged(keys: set[str], when: str) -> set[str]:
    """Documented keys, of the rows whose last column holds ``when``, that no logged key is an instance of."""
    return {pattern for pattern in documented_keys(when) if not any(documents(pattern, key) for key in keys)}


def test_patterns() -> None:
    assert expanded("a/{b,c}_{d,e}") == ["a/b_d", "a/b_e", "a/c_d", "a/c_e"]
    assert expanded("a/b") == ["a/b"]
    assert documents("reward/<name>/mean", "reward/exact/mean")
    assert not documents("reward/<name>/mean", "reward/mean")
    assert documents("test/<set>/pass@<k>", "test/held_out/pass@8")
    assert not documents("policy/kl", "policy/klx")


def test_every_row_is_complete() -> None:
    assert rows()
    for cells in rows():
        assert len(cells) == 4, cells[0]
        assert all(cells), cells[0]


def test_no_key_is_documented_twice() -> None:
    keys = documented_keys()
    assert len(keys) == len(set(keys))


def test_rollout_metrics_are_documented() -> None:
    report = rollout_report()
    keys = rollout_metrics(report).keys() | rollout_distributions(report).keys()
    assert undocumented(set(keys)) == set()
    assert unlogged(set(keys), "each rollout") == set()


@pytest.mark.parametrize("stage", ["validation", "test"])
def test_evaluation_metrics_are_documented(stage: str) -> None:
    metrics = EvaluationMetrics(k=[1, 2], components=["exact"])
    row = {"prompt_index": 0, "reward": 1.0, "components": {"exact": 1.0}, "correct": True, "answer": "4"}
    metrics.update([{**row, "length": 3, "truncated": False}] * 2)
    keys = {f"{stage}/held_out/{key}" for key in metrics.compute()}
    assert undocumented(keys) == set()
    assert not [key for key in unlogged(keys, "each evaluation") if key.startswith(f"{stage}/")]
