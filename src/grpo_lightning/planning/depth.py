"""Deep models, counted by two shallow ones: layers that are equal add equal parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch

from grpo_lightning.module import GRPOModule
from grpo_lightning.planning.choice import Choice
from grpo_lightning.planning.passes import Counted, count, private_copy
from grpo_lightning.planning.rows import Lengths
from grpo_lightning.planning.sizes import Size, Sizes
from grpo_lightning.policies.base import Policy
from grpo_lightning.policies.decoder_layers import layers

FEW, MORE = 4, 6
"""Layers of the shallow models."""
DEEP = 20
"""Models of more layers than this are not counted as they are."""


def count_deep(module: GRPOModule, choice: Choice, lengths: Lengths) -> Counted:
    """What one process would hold, as :func:`~grpo_lightning.planning.passes.count` says it.

    A model of ``n`` equal layers holds ``a + n b`` bytes of everything; ``a`` and ``b`` are found from two shallow models. A
    model whose layers differ is counted whole.

    Raises:
        ConfigError: If the policy cannot be built without its weights.
    """
    n = equal_layers(module.policy) if _depth(module.policy) > DEEP else 0
    if not n:
        return count(module, choice, lengths)
    few, more = (count(module, choice, lengths, policy=shallow(module.policy, depth)) for depth in (FEW, MORE))
    sizes = Sizes(*(_size(getattr(few.sizes, part.name), getattr(more.sizes, part.name), n) for part in fields(Sizes)))
    phases = {name: _parts(few.phases[name], more.phases[name], n) for name in few.phases}
    return Counted(phases, sizes, few.batches)


def equal_layers(policy: Policy) -> int:
    """How many layers a policy has, if all have the same parameters and settings; else 0."""
    depth = _depth(policy)
    if any(len(set(map(str, each))) > 1 for each in _of_layers(_text_config(policy), depth).values()):
        return 0
    whole: Any = private_copy(policy)
    whole.lora = None
    with torch.device("meta"):
        whole.outline()
    shapes = [[(name, each.shape) for name, each in layer.named_parameters()] for layer in layers(whole)]
    return depth if len(shapes) == depth and all(each == shapes[0] for each in shapes) else 0


def shallow(policy: Policy, depth: int) -> Policy:
    """A policy like this one, not built yet, of fewer layers."""
    made = private_copy(policy)
    text = _text_config(made)
    lists = _of_layers(text, text.num_hidden_layers)
    text.num_hidden_layers = depth
    for name, each in lists.items():
        setattr(text, name, each[:depth])
    return made


def _text_config(policy: Any) -> Any:
    return policy.config.get_text_config()


def _depth(policy: Any) -> int:
    return int(getattr(_text_config(policy), "num_hidden_layers", 0))


def _of_layers(text: Any, depth: int) -> dict[str, list[Any]]:
    """Settings of a configuration that say something for each layer."""
    return {
        name: each for name, each in vars(text).items() if isinstance(each, list) and len(each) == depth and depth > 1
    }


def _parts(few: Mapping[str, int], more: Mapping[str, int], n: int) -> dict[str, int]:
    return {part: _line(few.get(part, 0), more.get(part, 0), n) for part in {*few, *more}}


def _size(few: Size, more: Size, n: int) -> Size:
    return Size(**{each.name: _line(getattr(few, each.name), getattr(more, each.name), n) for each in fields(Size)})


def _line(few: int, more: int, n: int) -> int:
    """The value at ``n`` of the line through the values at both depths."""
    return few + (more - few) * (n - FEW) // (MORE - FEW)
