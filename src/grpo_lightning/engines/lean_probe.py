"""Which pass decodes a model on flat tokens: a lean one where it is known to compute the same, else the model's own."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from grpo_lightning.engines.flat_forward import FlatForward, ModelForward
from grpo_lightning.engines.lean_forward import LeanForward, Pack, Span, untouched
from grpo_lightning.engines.part_attention import attend_before
from grpo_lightning.engines.rollout_weights import narrowed, packed, packs

log = logging.getLogger(__name__)

KNOWN = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}
"""Classes of transformers whose pass is the lean one; subclasses may do anything."""
_CHILDREN = {
    "": {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"},
    "self_attn": {"q_proj", "k_proj", "v_proj", "o_proj"},
    "mlp": {"gate_proj", "up_proj", "down_proj", "act_fn"},
}
_SILU = {"SiLU", "SiLUActivation"}
_TYPES = (torch.float32, torch.float64, torch.bfloat16)
_found: WeakKeyDictionary[Any, dict[torch.dtype, list[Span] | None]] = WeakKeyDictionary()


def flat_forward(model: Any, *, narrow: bool) -> FlatForward:
    """The pass that decodes ``model``; the lean one is compared with the model's own, once.

    Args:
        model: A causal language model that :func:`~grpo_lightning.engines.flat_probe.decodes_flat`.
        narrow: Make its weights bfloat16 first; ``model`` stays as it is.
    """
    here = narrowed(model) if narrow else model
    if recognised(here):
        dtype = next(here.parameters()).dtype
        packable = dtype == torch.bfloat16 and here.device.type == "cpu" and packs()
        pack: Pack = "none" if not packable else "move" if narrow else "copy"
        known = _found.setdefault(model, {})
        if dtype not in known:
            forward, known[dtype] = _tried(here, pack)
            if forward is not None:
                return forward
            here = narrowed(model) if narrow else model
        spans = known[dtype]
        if spans is not None:
            return LeanForward(here, spans, pack=pack)
    return ModelForward(packed(here, model) if narrow else here)


def recognised(model: Any) -> bool:
    """Whether ``model`` is one of those that are known, and nobody has changed what the lean pass goes around."""
    kind = type(model)
    if kind.__name__ not in KNOWN or not kind.__module__.startswith("transformers.models."):
        return False
    parameters = list(model.parameters())
    device = parameters[0].device.type
    alike = len({each.dtype for each in parameters}) == 1 and parameters[0].dtype in _TYPES
    local = not any(hasattr(each, "device_mesh") for each in parameters)
    if not (alike and local) or torch.is_autocast_enabled(device):
        return False
    base = model.base_model
    return untouched(model) and untouched(base) and all(_plain(layer) for layer in base.layers)


def _plain(layer: Any) -> bool:
    for name, wanted in _CHILDREN.items():
        part = getattr(layer, name) if name else layer
        children = {child for child, _ in part.named_children()} - {"q_norm", "k_norm"}
        own_weights = any(True for _ in part.parameters(recurse=False))
        if children != wanted or own_weights or not untouched(part):
            return False
    return type(layer.mlp.act_fn).__name__ in _SILU and untouched(layer.mlp.act_fn)


@torch.no_grad()
def _tried(model: Any, pack: Pack) -> tuple[LeanForward | None, list[Span] | None]:
    """The lean pass of ``model``, and what its layers ask for, if it has the logits of the model's own pass."""
    wanted, spans = _logits(model, ModelForward(model))
    name, epsilon = type(model).__name__, torch.finfo(next(model.parameters()).dtype).eps
    try:
        forward = LeanForward(model, spans, pack=pack)
        found, _ = _logits(model, forward)
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        log.debug("%s is not decoded by the lean pass: %s: %s", name, type(error).__name__, error)
        return None, None
    close = 1e-5 if epsilon < 1e-6 else 16 * epsilon
    if bool((found - wanted).abs().max() <= close * wanted.abs().max()):
        return forward, spans
    log.debug("%s is not decoded by the lean pass: its logits are others", name)
    return None, None


def _logits(model: Any, forward: FlatForward) -> tuple[Tensor, list[Span]]:
    """Logits of two tokens of one row, early and late in the model's context, and what the layers asked for.

    Some models scale queries by how far out they are.
    """
    text, spans = model.config.get_text_config(), list[Span]()
    width = int(text.max_position_embeddings)
    near_N = torch.arange(min(8, width), device=model.device)
    generator = torch.Generator().manual_seed(0)
    ids_N = torch.randint(int(text.vocab_size), near_N.shape, generator=generator).to(model.device)

    def attention(layer: int, query: Tensor, key: Tensor, value: Tensor, *, scale: float, window: int | None) -> Tensor:
        spans.append(Span(layer, scale, window))
        return attend_before(query, key, value, scale, window)

    last = torch.tensor([near_N.shape[0] // 2, near_N.shape[0] - 1], device=model.device)
    try:
        found = [forward(ids_N, near_N + far, last, attention) for far in (0, width - near_N.shape[0])]
    finally:
        forward.rest()
    return torch.stack(found).double(), spans[: len(spans) // 2]
