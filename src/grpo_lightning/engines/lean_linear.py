"""Linear layers of a model in as few operations as they take, each with the operation that follows it."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from grpo_lightning.functional.linear import suits


class LeanLinear(Protocol):
    """A linear layer, or several of one input side by side."""

    def __call__(self, hidden: Tensor) -> Tensor:
        """[N, out] of [N, in]."""

    def silu(self, hidden: Tensor) -> Tensor:
        """``x * sigmoid(x)`` of what the layer gives."""

    def times(self, hidden: Tensor, other: Tensor) -> Tensor:
        """What the layer gives, times ``other``, [N, out]."""

    def plus(self, hidden: Tensor, other: Tensor) -> Tensor:
        """What the layer gives, plus ``other``, [N, out]."""


class Plain:
    """A layer's own weight.

    Args:
        linear: The layer; it is not changed.
    """

    def __init__(self, linear: nn.Linear) -> None:
        self._weight, self._bias = linear.weight, linear.bias

    def __call__(self, hidden: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return nn.functional.linear(hidden, self._weight, self._bias)

    def silu(self, hidden: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return nn.functional.silu(self(hidden), inplace=True)

    def times(self, hidden: Tensor, other: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self(hidden).mul_(other)

    def plus(self, hidden: Tensor, other: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self(hidden).add_(other) if self._bias is not None else torch.addmm(other, hidden, self._weight.t())


def own_weight(linear: nn.Linear) -> Plain | Fused:
    """A layer by its own weight, multiplied by the faster of the CPU's two libraries."""
    weight, bias = linear.weight.detach(), None if linear.bias is None else linear.bias.detach()
    few_rows = weight.new_empty(8, weight.shape[1])
    return Fused(weight, bias) if suits(few_rows, weight) else Plain(linear)


class Fused:
    """A weight that oneDNN multiplies by; what follows is done before the result is rounded.

    Args:
        weight: [out, in].
        bias: [out].
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, hidden: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self._alone(hidden, "none")

    def silu(self, hidden: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self._alone(hidden, "swish")

    def times(self, hidden: Tensor, other: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self._with(hidden, other, "mul")

    def plus(self, hidden: Tensor, other: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self._with(hidden, other, "add")

    def _alone(self, hidden: Tensor, then: str) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, self._weight, self._bias, then, [], "")
        return result

    def _with(self, hidden: Tensor, other: Tensor, how: str) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(hidden, other, self._weight, self._bias, how)
        return result


class Packed(Fused):
    """bfloat16 weights laid out as the CPU's matrix units want them.

    Args:
        linears: Layers of one input, whose results come side by side.
    """

    def __init__(self, *linears: nn.Linear) -> None:
        weight = (
            torch.cat([each.weight.detach() for each in linears]) if len(linears) > 1 else linears[0].weight.detach()
        )
        biases = [each.bias for each in linears]
        super().__init__(
            torch.ops.mkldnn._reorder_linear_weight(weight, None),
            None if biases[0] is None else torch.cat([each.detach() for each in biases]),
        )


class Called:
    """Any module in a linear layer's place, such as one with an adapter.

    Args:
        module: Called as the model calls it.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module: Any = module

    def __call__(self, hidden: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        result: Tensor = self._module(hidden[None])[0]
        return result

    def silu(self, hidden: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return nn.functional.silu(self(hidden))

    def times(self, hidden: Tensor, other: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self(hidden) * other

    def plus(self, hidden: Tensor, other: Tensor) -> Tensor:
        """See :class:`LeanLinear`."""
        return self(hidden) + other


class SideBySide:
    """Layers of one input whose results are put side by side.

    Args:
        linears: The layers.
    """

    def __init__(self, *linears: LeanLinear) -> None:
        self._linears = linears

    def __call__(self, hidden: Tensor) -> Tensor:
        """[N, sum of out] of [N, in]."""
        return torch.cat([each(hidden) for each in self._linears], dim=-1)
