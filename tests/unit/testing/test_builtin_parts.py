"""Every built-in part on the side of the data passes every check, with its own example and with other settings."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from grpo_lightning.testing import Check, Specimen, checks_of
from grpo_lightning.testing.suites import run_check

KINDS = ("reward", "advantage", "transform", "selector", "curriculum", "environment", "prompts", "callback")
REGISTRY = Registry(Plugins([]))
OWN = [(entry.kind, entry.name, {}) for entry in REGISTRY if entry.kind in KINDS]
OTHER: list[tuple[str, str, dict[str, Any]]] = [
    ("reward", "exact_match", {"pattern": "<answer>(.*?)</answer>", "ignore_case": True}),
    ("reward", "numeric_match", {"pattern": "is (.*)", "tolerance": 0.5}),
    ("reward", "length", {"maximum": 9, "buffer": 3, "unit": "words"}),
    ("reward", "length", {"maximum": 9, "unit": "characters"}),
    ("advantage", "group_norm", {"scale": "none"}),
    ("advantage", "group_norm", {"scale": "rollout", "ddof": 0}),
    ("advantage", "group_norm", {"std_floor": 0.5}),
    ("advantage", "max_minus_second", {"scale": "group"}),
    ("advantage", "rank_based", {"score": "normal"}),
    ("advantage", "pkpo", {"k": 2, "baseline": "leave_one_out"}),
    ("advantage", "pkpo", {"k": 1, "baseline": "none"}),
    ("advantage", "pass_at_k", {"k": 1, "correct": 0.5}),
    ("advantage", "reinforce_plus_plus", {"gamma": 0.5, "ddof": 0}),
    ("advantage", "reinforce_plus_plus_baseline", {"over": "rows"}),
    ("advantage", "gdpo", {"over": "steps", "ddof": 0}),
    ("advantage", "gigpo", {"scale": "std", "gamma": 1.0}),
    ("advantage", "otb", {"cap": 2.0}),
    ("advantage", "rae", {"columns": ["role"], "alpha": 0.5, "baseline": "previous"}),
    ("selector", "resample", {"prompts": "fresh", "max_attempts": 1, "then": "keep"}),
    ("environment", "scripted", {"column": "replies", "turns": 3}),
    ("prompts", "arithmetic", {"count": 20, "chat": True, "operations": ["+", "*"]}),
    ("prompts", "sorting", {"count": 20, "length": 3, "split": "held_out"}),
    ("callback", "sample_log", {"every": 1}),
    ("callback", "progress_line", {"every": 1}),
]
COLUMNS = {"scripted": {"replies": [["Why?", "Sure?"], "Again?", None]}}


def specimen(kind: str, name: str, arguments: dict[str, Any]) -> Specimen:
    entry = REGISTRY.find(kind, name)
    assert entry is not None
    own = Specimen.of(entry.load())
    return Specimen(own.component, arguments, COLUMNS.get(name, own.columns)) if arguments else own


CASES = [
    pytest.param(
        kind, name, arguments, check, id=f"{kind}-{name}{'-' * bool(arguments)}{'-'.join(arguments)}-{check.name}"
    )
    for kind, name, arguments in [*OWN, *OTHER]
    for check in checks_of(kind)
]


@pytest.mark.parametrize(("kind", "name", "arguments", "check"), CASES)
def test_passes(kind: str, name: str, arguments: dict[str, Any], check: Check) -> None:
    run_check(check, specimen(kind, name, arguments))
