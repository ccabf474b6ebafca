"""The preset ``trl`` computes what TRL computes: values and gradients recorded by benchmarks/compat_trl.py.

Ours is float64. What TRL holds in float32 are rewards and advantages, so a term differs by a few times 6e-8 of itself; the
sampler's log-probabilities are kept in float32 here, as much again. The bound is 1e-6 of the largest entry.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from grpo_lightning.compat import PRESETS, compat
from helpers.recorded_update import (
    RecordedRow,
    Trained,
    buffer_of,
    collected_of,
    objective_of,
    rollouts_of,
    run,
    table_of,
    train,
)
from helpers.tiny_policy import load_policy, save_model

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "trl_1_16.json").read_text())
CASES = {case["name"]: case for case in RECORDED["cases"]}
DIFFERENT = {
    "unanimous",
    "unanimous, scale batch",
    "abstaining",
    "truncated, grpo",
    "truncated, dr_grpo",
    "bnpo, four micro-batches",
    "dapo, first of two updates",
    "gspo, k3 by the row's ratio",
}
"""Cases with a test of their own, that says how the numbers differ."""
TOLERANCE = 1e-6


def rows_of(name: str, count: int | None = None) -> list[RecordedRow]:
    return [RecordedRow(**row) for row in RECORDED["rollouts"][name]["rows"][:count]]


def settings_of(theirs: dict[str, Any]) -> dict[str, Any]:
    """The preset, and over it what a person writes for their settings."""
    settings = compat("trl")
    settings["generation"]["mask_truncated"] = theirs.get("mask_truncated_completions", False)
    settings["advantage"]["scale"] = {"group": "group", "batch": "rollout", "none": "none"}[
        theirs.get("scale_rewards", "group")
    ]
    if theirs.get("multi_objective_aggregation") == "normalize_then_sum":
        settings["advantage"] = {"name": "gdpo", "ddof": 1, "eps": 1e-4}
    settings["loss"], settings["aggregation"] = loss_of(theirs)
    settings["kl"] |= {"weight": theirs.get("beta", 0.0)}
    if not theirs.get("use_bias_correction_kl", True):
        settings["kl"]["name"] = "k3"
    settings["correction"] = correction_of(theirs, settings["correction"])
    return settings


def loss_of(theirs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    low = theirs.get("epsilon", 0.2)
    high = theirs.get("epsilon_high", low)
    aggregation: Any = {
        "grpo": "sequence_mean_token_mean",
        "sapo": "sequence_mean_token_mean",
        "luspo": "sequence_mean_token_mean",
        "dr_grpo": {"name": "constant_length", "length": theirs["max_completion_length"]},
    }.get(theirs.get("loss_type", "dapo"), "token_mean")
    name = theirs.get("loss_type", "dapo")
    if name == "cispo":
        return {"name": "cispo", "epsilon_low": 1.0, "epsilon_high": high - 1.0}, aggregation
    if name == "sapo":
        taus = theirs.get("sapo_temperature_pos", 1.0), theirs.get("sapo_temperature_neg", 1.05)
        return {"name": "sapo", "tau_positive": taus[0], "tau_negative": taus[1]}, aggregation
    if name == "vespo":
        return {"name": "vespo"}, aggregation
    if theirs.get("importance_sampling_level") == "sequence":
        name = "luspo" if name == "luspo" else "gspo"
        return {"name": name, "epsilon_low": low, "epsilon_high": high}, aggregation
    return {"name": "clipped", "epsilon_low": low, "epsilon_high": high, "dual_clip": theirs.get("delta")}, aggregation


def correction_of(theirs: dict[str, Any], preset: dict[str, Any]) -> dict[str, Any] | None:
    parts = []
    if theirs.get("top_entropy_quantile") is not None:
        parts.append({"name": "high_entropy", "fraction": theirs["top_entropy_quantile"]})
    if theirs.get("off_policy_mask_threshold") is not None:
        parts.append({"name": "off_policy_sequence_mask", "delta": theirs["off_policy_mask_threshold"]})
    if theirs.get("use_vllm") and theirs.get("loss_type") != "vespo":
        mode = theirs.get("vllm_importance_sampling_mode", "sequence_mask")
        floor = theirs.get("vllm_importance_sampling_clip_min", 0.0)
        cap = theirs.get("vllm_importance_sampling_clip_max", 3.0)
        level = "sequence" if mode.startswith("sequence") else "step"
        if mode.endswith("mask"):
            parts.append(preset | {"level": level, "alpha": floor, "beta": cap})
        else:
            parts.append({"name": "truncated_importance", "level": level, "floor": floor, "cap": cap})
    if len(parts) > 1:
        return {"name": "product", "parts": parts}
    return parts[0] if parts else None


def ours(case: dict[str, Any], **changed: Any) -> Trained:
    """The case in this package."""
    theirs = case["settings"] | changed
    rows = rows_of(case["rollout"], case["rows"])
    if not theirs.get("use_vllm"):
        for row in rows:
            row.sampling = row.old
    return train(
        settings_of(theirs),
        rows,
        weights=theirs.get("reward_weights", [1.0]),
        on_policy=theirs["num_iterations"] == 1,
    )


def distance(found: list[float], wanted: list[float]) -> float:
    """Largest difference, in units of the largest wanted number."""
    a, b = torch.tensor(found).double(), torch.tensor(wanted).double()
    return float((a - b).abs().max() / b.abs().max())


@pytest.mark.parametrize("name", [name for name in CASES if name not in DIFFERENT])
def test_value_and_gradient_are_those_of_trl(name: str) -> None:
    case = CASES[name]
    found = ours(case)
    assert distance(found.advantages, case["advantages"]) < TOLERANCE
    # In the value terms of both signs cancel: its error is one of their sizes, which the gradient's entries have.
    assert abs(found.value - case["value"]) < TOLERANCE * sum(map(abs, case["gradient"]))
    assert distance(found.gradient, case["gradient"]) < TOLERANCE


def test_the_preset_itself_is_trl_without_settings() -> None:
    rows = rows_of("mixed")
    case = CASES["dapo, beta 0.0, sequence_mask"]
    found = train(compat("trl"), rows)
    assert distance(found.gradient, case["gradient"]) < TOLERANCE
    assert settings_of(case["settings"]) == {
        **compat("trl"),
        "loss": {key: value for key, value in compat("trl")["loss"].items() if key != "log_ratio_limit"},
    }


def test_the_recorded_defaults_are_those_of_the_preset() -> None:
    defaults = RECORDED["defaults"]
    assert RECORDED["versions"]["trl"].startswith("1.16.")
    for row in PRESETS["trl"].follows:
        assert defaults[row.setting] == row.default, row.setting
    told = " ".join(PRESETS["trl"].elsewhere)
    for name in ("max_grad_norm", "lr_scheduler_type", "weight_decay", "adam_beta1", "adam_beta2"):
        assert f"{name} ({defaults[name]})" in told


def test_every_kind_of_clipping_and_masking_occurs() -> None:
    """Otherwise the comparison would say little."""
    free, clipped = (CASES[name]["gradient"] for name in ("dapo, beta 0.0, None", "clip 0.1 0.05 None"))
    assert sum(value == 0 for value in clipped) > sum(value == 0 for value in free)
    assert CASES["clip 0.2 0.2 1.6"]["gradient"] != free
    masked = CASES["dapo, beta 0.0, sequence_mask"]["gradient"]
    rows = rows_of("mixed")
    lengths = [len(row.current) for row in rows]
    parts = zip(torch.tensor(masked).split(lengths), torch.tensor(free).split(lengths), strict=True)
    gone = [not after.any() and bool(before.any()) for after, before in parts]
    assert 0 < sum(gone) < len(rows)


# Where we differ, and how.


def test_equal_rewards_that_are_not_exact_give_noise_there_and_zero_here() -> None:
    for name in ("unanimous", "unanimous, scale batch"):
        case = CASES[name]
        found = ours(case)
        assert found.advantages[:21] == [0.0] * 21
        assert any(case["advantages"][:14])  # seven times 0.1, seven times 0.7
        assert not any(case["advantages"][14:21])  # seven times 1.0
        assert distance(found.advantages[21:], case["advantages"][21:]) < 2e-6
    assert max(map(abs, CASES["unanimous"]["advantages"][:14])) > 5e-4


def test_a_row_without_a_reward_is_counted_there_and_not_here() -> None:
    case = CASES["abstaining"]
    found = ours(case)
    assert distance(found.advantages, case["advantages"]) < TOLERANCE
    counted = sum(sum(row.trainable) for row in rows_of("abstaining") if row.rewards != [None])
    scale = case["num_items_in_batch"] / counted
    assert scale > 1
    assert distance(found.gradient, [scale * value for value in case["gradient"]]) < TOLERANCE


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo"])
def test_masked_rows_are_counted_there_and_not_here(loss: str) -> None:
    case = CASES[f"truncated, {loss}"]
    found = ours(case)
    rows = rows_of("truncated")
    scale = len(rows) / sum(not row.truncated for row in rows)
    assert scale > 1
    assert distance(found.gradient, [scale * value for value in case["gradient"]]) < TOLERANCE
    assert found.value == pytest.approx(scale * case["value"], rel=1e-5)


def test_bnpo_depends_there_on_the_micro_batches() -> None:
    whole, cut = CASES["bnpo, beta 0.04, None"], CASES["bnpo, four micro-batches"]
    assert distance(cut["gradient"], whole["gradient"]) > 0.1
    assert distance(ours(cut).gradient, whole["gradient"]) < TOLERANCE


def test_an_update_divides_there_by_the_mean_number_of_tokens_of_the_rollouts_updates() -> None:
    case = CASES["dapo, first of two updates"]
    tokens = sum(sum(row.trainable) for row in rows_of("mixed", case["rows"]))
    scale = case["num_items_in_batch"] / 2 / tokens
    found = ours(case)
    assert abs(scale - 1) > 0.01
    trained = case["gradient"][: len(found.gradient)]
    assert not any(case["gradient"][len(found.gradient) :])
    assert distance(found.gradient, [scale * value for value in trained]) < TOLERANCE


def test_a_kl_beside_a_row_ratio_is_weighted_there_by_the_row_and_here_by_the_step() -> None:
    case = CASES["gspo, k3 by the row's ratio"]
    plain = CASES["gspo, k3"]
    found = ours(case)
    rows = rows_of("mixed")
    # Theirs, from the formula: beta exp(mean log rho) k3 a step, with the gradient of the row's ratio.
    leaves = [torch.tensor(row.current, dtype=torch.float64, requires_grad=True) for row in rows]
    kl, weighted = torch.zeros(()), torch.zeros(())
    for row, leaf in zip(rows, leaves, strict=True):
        mask = torch.tensor(row.trainable, dtype=torch.float64)
        d = leaf - torch.tensor(row.reference, dtype=torch.float64)
        k3 = torch.exp(-d) - 1 + d
        ratio = torch.exp(((leaf - torch.tensor(row.old, dtype=torch.float64)) * mask).sum() / mask.sum())
        kl = kl + 0.04 * (mask * k3).sum() / mask.sum() / len(rows)
        weighted = weighted + 0.04 * (mask * k3 * ratio).sum() / mask.sum() / len(rows)
    difference = torch.cat(torch.autograd.grad(weighted - kl, leaves))
    wanted = (torch.tensor(plain["gradient"], dtype=torch.float64) + difference).tolist()
    assert distance(case["gradient"], wanted) < TOLERANCE
    assert distance(found.gradient, case["gradient"]) > 1e-3


# Through a model: log-probabilities, temperature and the gradient of the weights.


def test_parameter_gradient_of_a_tiny_model(tmp_path: Path) -> None:
    recorded = RECORDED["model"]
    theirs = recorded["settings"]
    rows = rows_of("mixed")
    for row, old, reference in zip(rows, recorded["old"], recorded["reference"], strict=True):
        row.old, row.sampling, row.reference = old, old, reference
    policy = load_policy(save_model(tmp_path, LlamaConfig(**recorded["config"]), generation={"eos_token_id": 23}))
    with torch.no_grad():
        for name, parameter in policy.causal_lm.named_parameters():
            parameter.copy_(torch.tensor(recorded["weights"][name], dtype=torch.float64).view_as(parameter))
    settings = settings_of(theirs)
    objective = objective_of(settings)
    rollouts = rollouts_of(rows, actions=[row.completion for row in rows], temperature=theirs["temperature"])
    collected = collected_of(settings, rollouts, table_of(rows, rollouts, [1.0]))
    buffer = buffer_of(settings, objective, collected, budget=30)
    buffer.old_log_probs_S = torch.tensor([value for row in rows for value in row.old], dtype=torch.float64)
    buffer.reference_log_probs_S = torch.tensor([value for row in rows for value in row.reference], dtype=torch.float64)
    assert len(buffer.plans[0].micro_batches) > 1
    value = run(objective, policy, buffer)
    # TRL's fused head gives log-probabilities in float32 whatever the weights are in.
    assert value == pytest.approx(recorded["value"], rel=1e-5)
    found = [parameter.grad.flatten() for _, parameter in sorted(policy.causal_lm.named_parameters())]
    wanted = [torch.tensor(values, dtype=torch.float64) for _, values in sorted(recorded["gradient"].items())]
    assert float((torch.cat(found) - torch.cat(wanted)).norm() / torch.cat(wanted).norm()) < 1e-5
