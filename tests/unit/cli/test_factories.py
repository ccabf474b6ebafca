from __future__ import annotations

import pytest
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from grpo_lightning.cli.factories import factory_class, factory_classes
from grpo_lightning.errors import ConfigError


def test_class_names_and_import_paths() -> None:
    assert factory_class("SGD", (Optimizer,), "model.optimizer", "SGD") == f"{SGD.__module__}.SGD"
    assert factory_class("torch.optim.SGD", (Optimizer,), "model.optimizer", "SGD") == "torch.optim.SGD"
    assert factory_class(f"{__name__}.make", (Optimizer,), "model.optimizer", "x") == f"{__name__}.make"


def make(parameters: list[nn.Parameter]) -> Optimizer:
    return SGD(parameters)


def test_private_and_abstract_classes_are_no_choice() -> None:
    names = factory_classes((LRScheduler,))
    assert "CosineAnnealingLR" in names
    assert not {name for name in names if name.startswith("_")} | ({"LRScheduler"} & set(names))


def test_of_two_with_one_name_the_one_asked_for() -> None:
    class SGD(nn.Module):  # not an optimizer, and asked for beside optimizers
        pass

    assert factory_classes((Optimizer, SGD))["SGD"] is SGD


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Adagrd", "model.optimizer: 'Adagrd' is no Optimizer; did you mean 'Adagrad' "),
        ("torch.optim.SDG", "model.optimizer: 'torch.optim.SDG' cannot be imported "
         "(module 'torch.optim' has no 'SDG'); check the path and what is installed"),
        ("torch.nn.Linear", "model.optimizer: 'torch.nn.Linear' is no Optimizer; known: "),
    ],
)  # fmt: skip
def test_what_is_none(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        factory_class(name, (Optimizer,), "model.optimizer", name)
    assert str(raised.value).startswith(message)


def test_no_name_at_all() -> None:
    with pytest.raises(ConfigError, match=r"model.optimizer: \{'lr': 1\} names no class; add name: one of ASGD, "):
        factory_class(None, (Optimizer,), "model.optimizer", {"lr": 1})
