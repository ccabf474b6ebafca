"""A decoder's pass over flat tokens in as few operations as it takes: small steps cost what their operations cost to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from grpo_lightning.engines.flat_forward import FlatAttention
from grpo_lightning.engines.lean_linear import Called, LeanLinear, Packed, SideBySide, own_weight
from grpo_lightning.engines.rollout_weights import pack_linears

_NORMS = {"LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm"}
_NORM_TYPES = (torch.float32, torch.bfloat16)
"""These norms compute in float32 whatever their input is."""


Pack = Literal["none", "copy", "move"]


@dataclass(frozen=True)
class Span:
    """What a layer asks its attention for."""

    layer: int
    scale: float
    window: int | None


class LeanForward:
    """The pass of a decoder of the Llama kind: ``x + o(attention(norm(x)))``, ``x + down(silu(gate(norm(x))) * up(norm(x)))``.

    It takes the model's parts by their names, and runs them without the modules around them: projections of one input side
    by side, queries and keys turned together, activation, product and residual sum in the linear layers that they follow.
    A linear layer or norm of another kind, or one that has hooks, is called as it is.

    Args:
        model: A causal language model of transformers, in evaluation or without dropout.
        spans: What each layer asks its attention for.
        pack: Lay linear layers out for the matrix units of the CPU: ``none``, ``copy``, or ``move``, which uses ``model`` up,
            for its own weights are let go.
    """

    def __init__(self, model: Any, spans: list[Span], *, pack: Pack) -> None:
        base = model.base_model
        self._embedding, self._rotary = base.embed_tokens, base.rotary_emb
        self._layers = [
            _Layer(layer, span, base.config, pack) for layer, span in zip(base.layers[: len(spans)], spans, strict=True)
        ]
        self._norm = _norm(base.norm)
        self._head = _linear(model.get_output_embeddings(), pack)

    def __call__(self, ids_N: Tensor, position_N: Tensor, last: Tensor | None, attention: FlatAttention) -> Tensor:
        """See :class:`~grpo_lightning.engines.flat_forward.FlatForward`."""
        hidden = self._embedding(ids_N)
        cos, sin = (each[0].unsqueeze(1) for each in self._rotary(hidden[None], position_ids=position_N[None]))
        half = sin.shape[-1] // 2
        turn = (cos, torch.cat([-sin[..., :half], sin[..., half:]], dim=-1))
        for layer in self._layers:
            hidden = layer(hidden, turn, attention)
        return self._head(self._norm(hidden if last is None else hidden[last]))

    def rest(self) -> None:
        """Nothing: the model's own attention is not touched."""


class _Layer:
    def __init__(self, layer: Any, span: Span, config: Any, pack: Pack) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._span, self._depth = span, int(attention.head_dim)
        self._heads, self._key_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self._before_attention, self._before_mlp = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self._query_norm, self._key_norm = (
            _norm(getattr(attention, name)) if hasattr(attention, name) else None for name in ("q_norm", "k_norm")
        )
        self._inward = _side_by_side([attention.q_proj, attention.k_proj, attention.v_proj], pack)
        self._outward = _linear(attention.o_proj, pack)
        self._gate, self._up, self._down = (_linear(each, pack) for each in (mlp.gate_proj, mlp.up_proj, mlp.down_proj))

    def __call__(self, hidden: Tensor, turn: tuple[Tensor, Tensor], attention: FlatAttention) -> Tensor:
        inward = self._inward(self._before_attention(hidden)).view(hidden.shape[0], -1, self._depth)
        both = self._heads + self._key_heads
        turned = self._turned(inward[:, :both], turn)
        query, key = turned[:, : self._heads], turned[:, self._heads :]
        span = self._span
        read = attention(span.layer, query, key, inward[:, both:], scale=span.scale, window=span.window)
        hidden = self._outward.plus(read.flatten(1), hidden)
        normed = self._before_mlp(hidden)
        return self._down.plus(self._up.times(normed, self._gate.silu(normed)), hidden)

    def _turned(self, both: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        """Queries and keys, [N, heads + key heads, depth], at their positions."""
        if self._query_norm is not None and self._key_norm is not None:
            query, key = both[:, : self._heads], both[:, self._heads :]
            both = torch.cat([self._query_norm(query), self._key_norm(key)], dim=1)
        cos, sin = turn
        return torch.addcmul(both * cos, both.roll(self._depth // 2, -1), sin)


class _RootMeanSquare:
    """``weight * x / sqrt(mean(x^2) + epsilon)``, computed in float32."""

    def __init__(self, weight: Tensor, epsilon: float) -> None:
        self._weight, self._per_number = weight, 1 / weight.shape[0]
        self._epsilon = torch.tensor([epsilon], device=weight.device)

    def __call__(self, hidden: Tensor) -> Tensor:
        wide = hidden.float()
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        shrink = torch.addcmul(self._epsilon, length, length, value=self._per_number).rsqrt_()
        return (wide * shrink).to(hidden.dtype).mul_(self._weight)


def _norm(module: Any) -> Any:
    """The norm, in few operations if that is what it computes."""
    if type(module).__name__ not in _NORMS or module.weight.dtype not in _NORM_TYPES or not untouched(module):
        return module
    return _RootMeanSquare(module.weight.detach(), float(module.variance_epsilon))


def _linear(module: Any, pack: Pack) -> LeanLinear:
    if not _is_plain(module):
        if pack == "move":
            pack_linears(module)
        return Called(module)
    return own_weight(module) if pack == "none" else _packed([module], pack)


def _side_by_side(modules: list[Any], pack: Pack) -> LeanLinear | SideBySide:
    alike = all(map(_is_plain, modules)) and len({each.bias is None for each in modules}) == 1
    if pack == "none" or not alike:
        return SideBySide(*(_linear(each, pack) for each in modules))
    return _packed(modules, pack)


def _packed(linears: list[nn.Linear], pack: Pack) -> Packed:
    packed = Packed(*linears)
    if pack == "move":
        for each in linears:
            each.weight = nn.Parameter(each.weight.detach().to("meta"), requires_grad=False)
    return packed


def untouched(module: nn.Module) -> bool:
    """Whether nobody has hung anything on ``module`` that its class does not have: hooks, another forward."""
    return not (module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def _is_plain(module: nn.Module) -> bool:
    return type(module) is nn.Linear and untouched(module)
