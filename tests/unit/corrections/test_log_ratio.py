from __future__ import annotations

import math

import pytest
import torch

from grpo_lightning.corrections.base import CorrectionInputs
from grpo_lightning.corrections.log_ratio import log_kappa, to_steps
from helpers.correction_cases import far_apart, no_steps, ratio_rows


def test_by_hand() -> None:
    inputs = ratio_rows([[2.0, 4.0], [0.5]])
    assert log_kappa(inputs).tolist() == pytest.approx([math.log(2), math.log(4), -math.log(2)])
    assert log_kappa(inputs, "sequence").tolist() == pytest.approx([math.log(8), -math.log(2)])


def test_it_is_taken_in_float64_without_gradient() -> None:
    old = torch.tensor([-1.0], requires_grad=True)
    inputs = CorrectionInputs(old, torch.tensor([-0.5]), torch.tensor([0]), torch.tensor([1]))
    assert log_kappa(inputs).dtype == torch.float64
    assert not log_kappa(inputs).requires_grad
    assert not log_kappa(inputs, "sequence").requires_grad


def test_values_of_rows_are_repeated_over_their_steps() -> None:
    inputs = far_apart(0.0)
    assert to_steps(torch.tensor([2.0, 3.0]).double(), inputs, "sequence").tolist() == [2.0, 2.0, 3.0]
    assert to_steps(torch.tensor([True, False, True]), inputs, "step").tolist() == [1.0, 0.0, 1.0]
    assert to_steps(torch.tensor([2.0, 3.0]).double(), inputs, "sequence").dtype == torch.float32
    assert to_steps(log_kappa(no_steps(), "sequence"), no_steps(), "sequence").shape == (0,)
