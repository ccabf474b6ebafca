from __future__ import annotations

import torch

from grpo_lightning.losses.base import LossInputs


def test_sums_and_means_of_rows_by_hand() -> None:
    steps = torch.tensor([1.0, 2.0, 4.0, 3.0, 0.0, 6.0], requires_grad=True)
    inputs = LossInputs(
        log_probs_S=steps,
        old_log_probs_S=torch.zeros(6),
        behaviour_log_probs_S=torch.zeros(6),
        advantages_S=torch.tensor([0.5, 0.5, -1.0, 2.0, 0.0, 1.0]),
        row_S=torch.tensor([0, 0, 1, 2, 2, 2]),
        lengths_R=torch.tensor([2, 1, 3]),
        group_R=torch.tensor([0, 0, 1]),
    )
    assert inputs.sum_rows(steps).tolist() == [3.0, 4.0, 9.0]
    assert inputs.mean_rows(steps).tolist() == [1.5, 4.0, 3.0]
    assert inputs.row_advantages().tolist() == [0.5, -1.0, 1.0]
    (gradient,) = torch.autograd.grad(inputs.sum_rows(steps) @ torch.tensor([1.0, 10.0, 100.0]), steps)
    assert gradient.tolist() == [1.0, 1.0, 10.0, 100.0, 100.0, 100.0]
