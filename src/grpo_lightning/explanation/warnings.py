"""Choices that contradict each other, or do something else than their names suggest. Each is one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grpo_lightning.formula import number

if TYPE_CHECKING:
    from grpo_lightning.module import GRPOModule

Check = Callable[["GRPOModule"], str | None]


def contradictions(module: GRPOModule) -> list[str]:
    """What is worth knowing before the run is started."""
    return [text for check in CHECKS if (text := check(module)) is not None]


def _length_bias(module: GRPOModule) -> str | None:
    aggregation = module.objective.aggregation.name
    if module.advantage.name != "mean_centered" or aggregation != "sequence_mean_token_mean":
        return None
    return ("advantage mean_centered (Dr. GRPO) with aggregation sequence_mean_token_mean keeps the length bias: a step of a "
            "long row weighs less than one of a short row; Dr. GRPO divides by a constant (constant_length)")  # fmt: skip


def _difficulty_bias(module: GRPOModule) -> str | None:
    scale = getattr(module.advantage, "scale", None)
    if (
        module.objective.aggregation.name != "constant_length"
        or module.advantage.name != "group_norm"
        or scale != "group"
    ):
        return None
    return ("aggregation constant_length with advantage group_norm is one half of Dr. GRPO: dividing by each group's standard "
            "deviation still weighs very easy and very hard prompts more; take mean_centered")  # fmt: skip


def _constant_below_length(module: GRPOModule) -> str | None:
    length = getattr(module.objective.aggregation, "length", None)
    longest = module.generation.max_new_tokens
    if module.objective.aggregation.name != "constant_length" or length is None or length >= longest:
        return None
    return (f"aggregation constant_length divides by {length}, and a completion may have {longest} steps "
            "(generation.max_new_tokens): the loss is that much larger than a mean over steps")  # fmt: skip


def _clip_that_never_binds(module: GRPOModule) -> str | None:
    loss = module.objective.loss
    high = getattr(loss, "epsilon_high", 0.0)
    if loss.name not in ("gspo", "gspo_token", "luspo") or max(high, getattr(loss, "epsilon_low", 0.0)) < 0.05:
        return None
    return (f"loss {loss.name} with a clip range of {number(high)} never clips: its ratio is a geometric mean over the row, "
            "which moves by a thousandth where a step's ratio moves by a tenth; the paper takes 3e-4 and 4e-4")  # fmt: skip


def _rows_weighted_by_length(module: GRPOModule) -> str | None:
    loss, aggregation = module.objective.loss, module.objective.aggregation.name
    if loss.scope != "sequence" or aggregation in ("sequence_mean_token_mean", "prompt_mean"):
        return None
    return (f"loss {loss.name} has one term a row, and aggregation {aggregation} counts it once a step: long rows weigh more; "
            "the papers of such losses average rows (sequence_mean_token_mean)")  # fmt: skip


def _gradient_of_another_kl(module: GRPOModule) -> str | None:
    kl = module.kl
    if kl is None or not kl.in_loss:
        return None
    return {
        "k1": "k1 in the loss has expected gradient 0 on policy: it costs a pass of the reference and holds nothing back; "
              "take k2 or exact, or put k1 into the reward",
        "k3": "k3 in the loss is not the gradient of the KL that is logged: its expected gradient on policy is that of the "
              "forward direction KL(pi_ref || pi_theta); k2, exact and k3_unbiased have that of KL(pi_theta || pi_ref)",
        "abs": "abs in the loss is not the gradient of a KL: on policy it is that of twice the total variation",
    }.get(kl.estimator.name)  # fmt: skip


def _penalty_of_another_kl(module: GRPOModule) -> str | None:
    kl = module.kl
    if kl is None or not kl.in_reward or kl.estimator.name == "k1":
        return None
    return (
        f"{kl.estimator.name} in the reward is not the gradient of the KL between whole sequences; k1 in the reward is"
    )


def _penalty_divided_by_std(module: GRPOModule) -> str | None:
    kl = module.kl
    if kl is None or not kl.in_reward:
        return None
    if module.advantage.name not in ("group_norm", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "lite_ppo"):
        return None
    if getattr(module.advantage, "scale", "group") == "none":
        return None
    return (f"the KL in the reward is divided by a standard deviation with it: its weight is {number(kl.weight)} / std, so it "
            "grows where rewards hardly differ")  # fmt: skip


def _no_ratio_off_policy(module: GRPOModule) -> str | None:
    updates = module.epochs_per_rollout * module.updates_per_rollout
    if module.objective.loss.name != "reinforce" or updates == 1:
        return None
    return (f"loss reinforce has no ratio and a rollout is trained in {updates} updates: all but the first are off policy and "
            "not weighted for it")  # fmt: skip


def _on_policy_by_the_paper(module: GRPOModule) -> str | None:
    updates = module.epochs_per_rollout * module.updates_per_rollout
    if module.advantage.name != "opo" or (updates == 1 and (module.kl is None or module.kl.weight == 0)):
        return None
    return "advantage opo is derived strictly on policy and without a KL: its baseline is optimal for neither"


def _clip_below_support(module: GRPOModule) -> str | None:
    loss = module.objective.loss
    if loss.name != "clipped" or getattr(loss, "epsilon_low", 1.0) > 0:
        return None
    return (
        "loss clipped with epsilon_low 0 takes the gradient from every step of negative advantage that has moved at all"
    )


def _whitened_twice(module: GRPOModule) -> str | None:
    if module.advantage.name not in ("reinforce_plus_plus", "gdpo") or module.selector.name == "all":
        return None
    return (f"advantage {module.advantage.name} is whitened over the whole rollout, and selector {module.selector.name} drops "
            "groups afterwards: what trains has neither mean 0 nor standard deviation 1")  # fmt: skip


CHECKS: tuple[Check, ...] = (
    _length_bias,
    _difficulty_bias,
    _constant_below_length,
    _clip_that_never_binds,
    _rows_weighted_by_length,
    _gradient_of_another_kl,
    _penalty_of_another_kl,
    _penalty_divided_by_std,
    _no_ratio_off_policy,
    _on_policy_by_the_paper,
    _clip_below_support,
    _whitened_twice,
)
