"""How large the parts of a policy are that are handled as one: all of it, one layer, what belongs to no layer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from grpo_lightning.policies.base import Policy
from grpo_lightning.policies.decoder_layers import layers


@dataclass(frozen=True)
class Size:
    """Parameters, and what they take."""

    parameters: int
    trained: int
    """Of these, those that are trained."""
    weight_bytes: int
    gradient_bytes: int


@dataclass(frozen=True)
class Sizes:
    """Sizes of a policy."""

    whole: Size
    layer: Size
    """The largest layer."""
    outside: Size
    """Embedding, head and whatever else is in no layer."""


def sizes_of(policy: Policy) -> Sizes:
    """Sizes of a policy's weights; those that are shared count once."""
    found = [list(layer.parameters()) for layer in layers(policy)]
    inside = {id(each) for layer in found for each in layer}
    outside = [each for each in policy.parameters() if id(each) not in inside]
    largest = max((_size(layer) for layer in found), key=lambda size: size.weight_bytes, default=_size([]))
    return Sizes(_size(list(policy.parameters())), largest, _size(outside))


def _size(parameters: list[nn.Parameter]) -> Size:
    trained = [each for each in parameters if each.requires_grad]
    return Size(
        parameters=sum(each.numel() for each in parameters),
        trained=sum(each.numel() for each in trained),
        weight_bytes=sum(each.numel() * each.element_size() for each in parameters),
        gradient_bytes=sum(each.numel() * each.element_size() for each in trained),
    )
