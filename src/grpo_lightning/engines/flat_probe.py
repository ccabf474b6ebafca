"""Whether a model can be decoded on flat tokens, found out by trying."""

from __future__ import annotations

import logging
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from grpo_lightning.engines.admission import Admitted
from grpo_lightning.engines.flat_batch import FlatBatch
from grpo_lightning.engines.flat_forward import ModelForward
from grpo_lightning.policies.attention import AttentionRefusedError
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Ragged

log = logging.getLogger(__name__)

_STEPS = 3
_found: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def decodes_flat(policy: Policy) -> bool:
    """Whether the policy's model decodes flat as it does alone; it is tried once, and a model that cannot is told of."""
    model: Any = policy.causal_lm
    if model not in _found:
        device: Any = policy.device
        with torch.autocast(device.type, enabled=False):
            fault = flat_fault(model, device)
        _found[model] = fault is None
        if fault is not None:
            address = getattr(policy, "address", None)
            name = getattr(address, "text", type(model).__name__)
            log.warning("%s %s: it is decoded with its own cache, which is slower", name, fault)
    return _found[model]


def flat_fault(model: Any, device: torch.device) -> str | None:
    """What is wrong with decoding ``model`` flat, as a clause; ``None`` if nothing is.

    Two contexts of different length, two rows of one and one of the other, write some tokens. Their logits must be those of
    each row alone, and must not change, beyond rounding, when another row does.
    """
    config = model.config.get_text_config()
    vocabulary, width = int(config.vocab_size), int(getattr(config, "max_position_embeddings", None) or 64)
    long = min(9, width - _STEPS)
    if long < 3:
        return "has too short a context to be tried"
    generator = torch.Generator().manual_seed(0)
    contexts = [torch.randint(vocabulary, (length,), generator=generator) for length in (long, long // 2)]
    written = torch.randint(vocabulary, (_STEPS, 3), generator=generator)
    try:
        flat = _decode(model, device, contexts, written)
        other = (contexts[0] + 1) % vocabulary
        changed = _decode(
            model, device, [other, contexts[1]], torch.cat([(written[:, :2] + 1) % vocabulary, written[:, 2:]], 1)
        )
    except AttentionRefusedError as error:
        return f"has an attention of its own ({error})"
    except (RuntimeError, TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
        return f"does not run on flat tokens ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
    alone = _alone(model, device, contexts, written)
    largest, epsilon = alone.abs().max(), torch.finfo(alone.dtype).eps
    if bool((flat - alone).abs().max() > (1e-4 if epsilon < 1e-6 else 8 * epsilon) * largest):
        return "has other logits when rows are decoded together than when each is alone"
    if bool((flat - changed)[:, 2].abs().max() > 4 * epsilon * largest):
        return "lets a row know of another that is decoded with it"
    return None


def _decode(model: Any, device: torch.device, contexts: list[Tensor], written: Tensor) -> Tensor:
    """[steps + 1, 3, V]."""
    batch = FlatBatch(ModelForward(model), Ragged.from_list(contexts, torch.int64), device, _STEPS + 1)
    try:
        logits = [batch.advance([], [Admitted(0, [0, 1], False), Admitted(1, [2], False)])]
        for step in range(_STEPS):
            logits.append(batch.advance(written[step].tolist(), []))
    finally:
        batch.rest()
    return torch.stack(logits)


def _alone(model: Any, device: torch.device, contexts: list[Tensor], written: Tensor) -> Tensor:
    rows = []
    for row, context in enumerate([contexts[0], contexts[0], contexts[1]]):
        ids = torch.cat([context, written[:, row]])[None].to(device)
        rows.append(model(input_ids=ids, use_cache=False).logits[0, context.shape[0] - 1 :])
    return torch.stack(rows, dim=1)
