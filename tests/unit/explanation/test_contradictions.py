"""Each warning appears where it should, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning import create
from grpo_lightning.explanation.warnings import CHECKS, contradictions
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.registry import build
from helpers.plain_module import module


def term(name: str, where: Any = "loss", weight: float = 0.01) -> KLTerm:
    return KLTerm(estimator=create("kl", name), weight=weight, where=where)


MET: dict[str, tuple[dict[str, Any], str]] = {
    "length": ({"advantage": "mean_centered", "aggregation": "sequence_mean_token_mean"}, "keeps the length bias"),
    "difficulty": ({"aggregation": create("aggregation", "constant_length", length=256)}, "one half of Dr. GRPO"),
    "constant": (
        {"aggregation": create("aggregation", "constant_length", length=9), "advantage": "mean_centered"},
        "divides by 9, and a completion may have 256 steps",
    ),
    "never clips": (
        {"loss": create("loss", "gspo", epsilon_low=0.2, epsilon_high=0.2), "aggregation": "sequence_mean_token_mean"},
        "never clips",
    ),
    "long rows": ({"loss": "gspo", "aggregation": "token_mean"}, "long rows weigh more"),
    "k1": ({"kl": term("k1")}, "expected gradient 0"),
    "k3": ({"kl": term("k3")}, "is not the gradient of the KL that is logged"),
    "abs": ({"kl": term("abs")}, "total variation"),
    "k2 as a penalty": (
        {"kl": term("k2", "reward"), "advantage": "leave_one_out"},
        "not the gradient of the KL between",
    ),
    "divided": ({"kl": term("k1", "reward")}, "its weight is 0.01 / std"),
    "no ratio": ({"loss": "reinforce", "updates_per_rollout": 2}, "off policy and not weighted"),
    "opo": ({"advantage": "opo", "updates_per_rollout": 2}, "strictly on policy"),
    "no room": ({"loss": create("loss", "clipped", epsilon_low=0.0)}, "epsilon_low 0"),
    "whitened": ({"advantage": "reinforce_plus_plus", "selector": "drop_zero_signal"}, "neither mean 0"),
}
QUIET: list[dict[str, Any]] = [
    {},
    {"kl": term("k2")},
    {"kl": term("k3", weight=0.0)},
    {"kl": term("exact")},
    {"kl": term("k1", "reward"), "advantage": "leave_one_out"},
    {"advantage": "mean_centered", "aggregation": create("aggregation", "constant_length", length=256)},
    {"loss": "gspo", "aggregation": "sequence_mean_token_mean"},
    {"loss": "reinforce", "advantage": "opo"},
    {"advantage": "reinforce_plus_plus"},
]


@pytest.mark.parametrize("case", MET)
def test_a_contradiction_is_told_and_is_the_only_one(case: str) -> None:
    settings, words = MET[case]
    found = contradictions(module(**settings))
    assert len(found) == 1, found
    assert words in found[0]


@pytest.mark.parametrize("settings", QUIET)
def test_choices_that_agree_are_not_told(settings: dict[str, Any]) -> None:
    assert contradictions(module(**settings)) == []


def test_every_check_has_a_case() -> None:
    silent = [check.__name__ for check in CHECKS if not any(check(module(**settings)) for settings, _ in MET.values())]
    assert silent == []


def test_what_is_suggested_exists() -> None:
    for kind, name in [
        ("advantage", "mean_centered"),
        ("aggregation", "sequence_mean_token_mean"),
        ("kl", "k3_unbiased"),
    ]:
        assert build(kind, name, kind).name == name
