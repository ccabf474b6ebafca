from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo_lightning.callbacks.rollout_metrics import rollout_distributions, rollout_metrics
from helpers.run_reports import rollout_report

# The report's rows, with X for a row that is not valid (an abstention, an empty completion):
#   group 0: rewards 1 0 1 0        lengths 2 4 6 8   advantages 1 -1 1 -1   kept, run      one truncated
#   group 1: rewards .3 .3 .3       lengths 1 1 3     advantages 0           kept, not run
#   group 2: rewards 2 X X          lengths 5 10 0    advantages 0           not kept       the X of length 10 truncated
STD_0 = (1 / 3) ** 0.5  # of 1 0 1 0: squares of 0.5 sum to 1, over 3
EXPECTED = {
    "reward/mean": 4.9 / 8,
    "reward/kl": 45 / 8 / 10,
    "reward/std": ((6.27 - 4.9**2 / 8) / 7) ** 0.5,
    "reward/min": 0.0,
    "reward/max": 2.0,
    "reward/abstained_fraction": 1 / 10,
    "reward/exact/mean": 3 / 6,
    "reward/exact/std": (6 * 0.25 / 5) ** 0.5,
    "reward/exact/abstained_fraction": 4 / 10,
    "reward/exact/failures": 2.0,
    "reward/exact/failures/timeout": 2.0,
    "reward/exact/retries": 1.0,
    "reward/exact/seconds": 0.25,
    "reward/style/mean": 0.5,
    "reward/style/abstained_fraction": 9 / 10,
    "reward/style/failures": 0.0,
    "reward/style/seconds": 0.0,
    # Group means 0.3, 0.5, 2: the percentiles lie at 0.2, 1 and 1.8 of their ranks 0, 1, 2.
    "group/reward_mean_p10": 0.3 + 0.2 * 0.2,
    "group/reward_mean_p50": 0.5,
    "group/reward_mean_p90": 0.5 + 0.8 * 1.5,
    # Deviations 0 and STD_0; the group with one valid row has none.
    "group/reward_std_mean": STD_0 / 2,
    "group/reward_std_p10": 0.1 * STD_0,
    "group/reward_std_p50": 0.5 * STD_0,
    "group/reward_std_p90": 0.9 * STD_0,
    "group/reward_variance_mean": 1 / 6,
    "group/size_mean": (4 + 3 + 1) / 3,
    "group/singletons": 1.0,
    "group/zero_signal_fraction": 2 / 3,
    "group/unanimous_fraction": 1 / 3,
    "group/dropped": 1.0,
    "group/redrawn": 5.0,
    "rows/idle_fraction": 3 / 7,
    "advantage/abs_mean": 4 / 7,
    "advantage/min": -1.0,
    "advantage/max": 1.0,
    # Lengths 0 1 1 2 3 4 5 6 8 10: the percentiles lie at 0.9, 4.5 and 8.1 of their ranks 0 ... 9.
    "completion/length_mean": 4.0,
    "completion/length_p10": 0.9,
    "completion/length_p50": 3.5,
    "completion/length_p90": 8.2,
    "completion/length_max": 10.0,
    "completion/truncated_fraction": 2 / 10,
    "completion/turns_mean": 12 / 10,
    "time/generate": 0.5,
    "time/reward": 0.25,
    "time/score": 0.125,
    "time/collect": 1.0,
    "perf/prompt_steps": 30.0,
    "perf/sampled_tokens_per_second": 60 / 0.5,
    "rollout/staleness": 3.0,
}


def test_hand_computed() -> None:
    assert rollout_metrics(rollout_report()) == pytest.approx(EXPECTED, abs=1e-12)


def test_order_of_rows_does_not_matter() -> None:
    report = rollout_report()
    order = torch.tensor([3, 9, 0, 8, 2, 1, 5, 7, 4, 6])
    moved = replace(
        report,
        table=report.table.select(order),
        advantages_R=report.advantages_R[order],
        keep_R=report.keep_R[order],
        run_R=report.run_R[order],
    )
    assert rollout_metrics(moved) == pytest.approx(EXPECTED, abs=1e-12)


def test_nearly_equal_rewards_are_unanimous() -> None:
    report = rollout_report()
    rewards_R = report.table.rewards_R.clone()
    rewards_R[4] = 0.1 + 0.2  # not 0.3 in float64
    changed = replace(report, table=replace(report.table, rewards_R=rewards_R))
    assert rollout_metrics(changed)["group/unanimous_fraction"] == pytest.approx(1 / 3)


def test_what_cannot_be_counted_is_left_out() -> None:
    report = rollout_report()
    one = torch.tensor([8])  # the row that abstains
    alone = replace(
        report,
        table=report.table.select(one),
        advantages_R=report.advantages_R[one],
        keep_R=report.keep_R[one],
        run_R=report.run_R[one],
        seconds={"generate": 0.0},
    )
    metrics = rollout_metrics(alone)
    assert metrics["reward/abstained_fraction"] == 1.0
    assert metrics["group/zero_signal_fraction"] == 1.0
    assert metrics["group/unanimous_fraction"] == 0.0
    missing = {"reward/mean", "reward/std", "group/reward_mean_p50", "rows/idle_fraction", "advantage/max"}
    assert not missing & metrics.keys()
    assert "perf/sampled_tokens_per_second" not in metrics
    assert "group/reward_mean_histogram" not in rollout_distributions(alone)


def test_an_empty_rollout_has_no_statistics() -> None:
    report = rollout_report()
    none = torch.tensor([], dtype=torch.int64)
    metrics = rollout_metrics(
        replace(
            report,
            table=report.table.select(none),
            advantages_R=report.advantages_R[none],
            keep_R=report.keep_R[none],
            run_R=report.run_R[none],
        )
    )
    assert metrics["group/dropped"] == 0.0
    assert not [key for key in metrics if key.startswith(("completion/", "advantage/", "reward/mean"))]


def test_distributions() -> None:
    found = rollout_distributions(rollout_report())
    assert found["group/reward_mean_histogram"].tolist() == pytest.approx([0.5, 0.3, 2.0])
    assert found["group/reward_variance_histogram"].tolist() == pytest.approx([1 / 3, 0.0])
    assert found["completion/length_histogram"].tolist() == [2, 4, 6, 8, 1, 1, 3, 5, 10, 0]
