"""From the report of a rollout to the numbers and distributions that are logged of it."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.functional.groups import Groups
from grpo_lightning.reports import RolloutReport
from grpo_lightning.types import FinishReason, RolloutTable


def rollout_metrics(report: RolloutReport) -> dict[str, float]:
    """Statistics of one rollout, by the keys of ``docs/metrics.md``, which says what each counts.

    A key whose statistic has nothing to count (a mean of no rows, a deviation of one) is left out. Percentiles are
    interpolated linearly.
    """
    table = report.table
    paid = {} if report.kl_R is None else _mean("reward/kl", report.kl_R)
    return {
        **_rewards(table),
        **paid,
        **_components(report),
        **_groups(report),
        **_rows(report),
        **_completions(table),
        **_costs(report),
        "rollout/staleness": float(report.staleness),
    }


def rollout_distributions(report: RolloutReport) -> dict[str, Tensor]:
    """Values whose histogram is logged, by key: group means and variances of the reward, and lengths of completions."""
    means_G, variances_G = group_moments(report.table)
    values = {
        "group/reward_mean_histogram": means_G,
        "group/reward_variance_histogram": variances_G,
        "completion/length_histogram": report.table.lengths_R,
    }
    return {key: each.to(torch.float64) for key, each in values.items() if len(each) > 0}


def group_moments(table: RolloutTable) -> tuple[Tensor, Tensor]:
    """Mean reward of each group with a valid row, and variance (ddof 1) of each with two, over valid rows; float64."""
    groups, rewards_R = Groups.of(table.group_R[table.valid_R]), table.rewards_R[table.valid_R]
    return groups.mean(rewards_R), groups.std(rewards_R, ddof=1)[groups.sizes_G > 1] ** 2


def _rewards(table: RolloutTable) -> dict[str, float]:
    rewards_R = table.rewards_R[table.valid_R]
    return {
        **_moments("reward/", rewards_R),
        **_extremes("reward/", rewards_R),
        **_mean("reward/abstained_fraction", table.rewards_R.isnan()),
    }


def _components(report: RolloutReport) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, scores_R in report.table.components.items():
        metrics |= _moments(f"reward/{name}/", scores_R[~scores_R.isnan()])
        metrics |= _mean(f"reward/{name}/abstained_fraction", scores_R.isnan())
        counts = {"failures": 0.0, **report.reward_counts.get(name, {})}
        metrics |= {f"reward/{name}/{key}": float(count) for key, count in counts.items()}
    return metrics


def _groups(report: RolloutReport) -> dict[str, float]:
    table = report.table
    everything = Groups.of(table.group_R)
    valid_sizes_G = everything.sum(table.valid_R.to(torch.float64))
    compared = Groups.of(table.group_R[table.valid_R])
    rewards_R, sizes_R = table.rewards_R[table.valid_R], table.sizes_R[table.valid_R]
    unanimous = compared.unanimous(rewards_R, table.reward_epsilon, sizes_R) & (compared.sizes_G > 1)
    means_G, variances_G = group_moments(table)
    metrics = {
        **_percentiles("group/reward_mean", means_G),
        **_mean("group/reward_std_mean", variances_G.sqrt()),
        **_percentiles("group/reward_std", variances_G.sqrt()),
        **_mean("group/reward_variance_mean", variances_G),
        **_mean("group/size_mean", valid_sizes_G),
        "group/singletons": float((valid_sizes_G == 1).sum()),
        "group/dropped": float((everything.max(report.keep_R.to(torch.float64)) == 0).sum()),
        "group/redrawn": float(report.groups_redrawn),
    }
    if len(everything) > 0:
        signal_G = everything.max((report.advantages_R != 0).to(torch.float64))
        metrics |= _mean("group/zero_signal_fraction", signal_G == 0)
        metrics["group/unanimous_fraction"] = float(unanimous.sum()) / len(everything)
    return metrics


def _rows(report: RolloutReport) -> dict[str, float]:
    advantages_R = report.advantages_R[report.keep_R & report.table.valid_R]
    return {
        **_mean("rows/idle_fraction", ~report.run_R[report.keep_R]),
        **_mean("advantage/abs_mean", advantages_R.abs()),
        **_extremes("advantage/", advantages_R),
    }


def _completions(table: RolloutTable) -> dict[str, float]:
    metrics = {
        **_mean("completion/length_mean", table.lengths_R),
        **_percentiles("completion/length", table.lengths_R),
        **_mean("completion/truncated_fraction", table.finish_R == FinishReason.LENGTH),
        **_mean("completion/turns_mean", table.turns_R),
    }
    if len(table) > 0:
        metrics["completion/length_max"] = float(table.lengths_R.max())
    return metrics


def _costs(report: RolloutReport) -> dict[str, float]:
    metrics = {f"time/{phase}": float(seconds) for phase, seconds in report.seconds.items()}
    metrics["perf/prompt_steps"] = float(report.prompt_steps)
    if report.seconds.get("generate", 0.0) > 0:
        metrics["perf/sampled_tokens_per_second"] = report.sampled_steps / report.seconds["generate"]
    return metrics


def _mean(key: str, values: Tensor) -> dict[str, float]:
    return {key: float(values.to(torch.float64).mean())} if len(values) > 0 else {}


def _moments(prefix: str, values: Tensor) -> dict[str, float]:
    spread = {f"{prefix}std": float(values.std(correction=1))} if len(values) > 1 else {}
    return {**_mean(f"{prefix}mean", values), **spread}


def _extremes(prefix: str, values: Tensor) -> dict[str, float]:
    return {f"{prefix}min": float(values.min()), f"{prefix}max": float(values.max())} if len(values) > 0 else {}


def _percentiles(prefix: str, values: Tensor) -> dict[str, float]:
    if len(values) == 0:
        return {}
    points = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    found = values.to(torch.float64).quantile(points).tolist()
    return {f"{prefix}_p{round(100 * point)}": each for point, each in zip(points.tolist(), found, strict=True)}
