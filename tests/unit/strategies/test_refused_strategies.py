"""Strategies under which a run would be wrong or break are refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, SingleDeviceStrategy, Strategy

from grpo_lightning.errors import ConfigError
from grpo_lightning.run_checks import check_strategy
from grpo_lightning.strategies.fsdp2 import FSDP2Strategy


def trainer(strategy: Strategy) -> Any:
    return SimpleNamespace(strategy=strategy)


class OnCPU(FSDPStrategy):
    """One of its own, as somebody could write it to get past Lightning."""


@pytest.mark.parametrize("strategy", [FSDPStrategy, OnCPU])
def test_fsdp1_is_refused(strategy: type[Strategy]) -> None:
    with pytest.raises(ConfigError, match=r"outside of its own passes.*set it to fsdp2") as error:
        check_strategy(trainer(strategy()))
    assert error.value.setting == "trainer.strategy"


def test_others_are_not() -> None:
    for strategy in (SingleDeviceStrategy(), DDPStrategy(), FSDP2Strategy()):
        check_strategy(trainer(strategy))
