from __future__ import annotations

import math

import pytest
import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.capped_ratio import capped_ratio, require_cap


def value_and_slope(
    log_ratios: list[float], cap: float | None, dtype: torch.dtype = torch.float64
) -> tuple[list[float], ...]:
    log_ratio = torch.tensor(log_ratios, dtype=dtype, requires_grad=True)
    ratio = capped_ratio(log_ratio, cap)
    return ratio.tolist(), torch.autograd.grad(ratio.sum(), log_ratio)[0].tolist()


def test_above_the_cap_the_value_is_the_cap_and_so_is_the_slope() -> None:
    log_ratios = [math.log(0.25), 0.0, math.log(2), math.log(8)]
    assert value_and_slope(log_ratios, 2.0) == (pytest.approx([0.25, 1, 2, 2]), pytest.approx([0.25, 1, 2, 2]))
    assert value_and_slope(log_ratios, 0.5) == (
        pytest.approx([0.25, 0.5, 0.5, 0.5]),
        pytest.approx([0.25, 0.5, 0.5, 0.5]),
    )
    assert value_and_slope(log_ratios, None) == (pytest.approx([0.25, 1, 2, 8]), pytest.approx([0.25, 1, 2, 8]))


@pytest.mark.parametrize("cap", [None, 20.0, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extremes_are_finite(cap: float | None, dtype: torch.dtype) -> None:
    for numbers in value_and_slope([-1e4, -500.0, 500.0, 1e4], cap, dtype):
        assert all(math.isfinite(number) for number in numbers)


@pytest.mark.parametrize("cap", [0.0, -1.0, math.inf, math.nan])
def test_wrong_caps_are_refused_by_name(cap: float) -> None:
    with pytest.raises(ConfigError) as error:
        require_cap(cap)
    assert error.value.setting == "cap"
    require_cap(None)
