from __future__ import annotations

import pytest

from grpo_lightning.aggregations.constant_length import ConstantLength
from grpo_lightning.errors import ConfigError
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert ConstantLength(length=5).step_weights(update_rows()).tolist() == [0.05, 0.05, 0.05, 0.05]
    assert aggregated(ConstantLength(length=5)) == pytest.approx((2 + 6 + 8 + 2) / (4 * 5))


def test_the_constant_is_the_configured_one_whatever_the_rows() -> None:
    short, long = update_rows([1, 1], [0, 0]), update_rows([1, 900], [0, 0])
    loss = ConstantLength(length=10)
    assert loss.step_weights(short).tolist() == loss.step_weights(long).tolist()


@pytest.mark.parametrize("length", [0, -3])
def test_lengths_below_one_are_refused(length: int) -> None:
    with pytest.raises(ConfigError, match=r"^length: "):
        ConstantLength(length=length)
