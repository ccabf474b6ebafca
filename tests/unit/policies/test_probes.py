"""Fast paths that a model allows, judged on fresh weights, where what they would get wrong is small."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM

from grpo_lightning.policies.probes import head_is_apart, keeps_rows_apart, shares_prompts
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, family_config
from helpers.tiny_policy import tiny_policy


class Bent(nn.Module):
    """A model that bends its logits a little, as soft capping at 30 does."""

    def __init__(self, cap: float | None) -> None:
        super().__init__()
        self.inner = tiny_policy(dtype="float32").causal_lm
        self.cap = cap
        with torch.no_grad():
            for parameter in self.inner.parameters():
                parameter.mul_(0.1)

    @property
    def base_model(self) -> Any:
        return self.inner.base_model

    def get_output_embeddings(self) -> Any:
        return self.inner.get_output_embeddings()

    def forward(self, **arguments: Any) -> Any:
        output = self.inner(**arguments)
        if self.cap is not None:
            output.logits = self.cap * torch.tanh(output.logits / self.cap)
        return output


@pytest.mark.parametrize("cap", [None, 30.0, 50.0])
def test_soft_capping_is_found_even_where_logits_are_small(cap: float | None) -> None:
    model = Bent(cap)
    ids = torch.arange(16).reshape(2, 8)
    with torch.no_grad():
        assert float(model(input_ids=ids).logits.abs().max()) < 0.2
        assert head_is_apart(model, ids) == (cap is None)


@pytest.mark.parametrize("fresh", [*FAMILIES, *BENT_HEADS, *APART_ONLY])
def test_packing_is_judged_rightly_on_fresh_weights(fresh: str) -> None:
    """What leaks between the rows of a freshly made model is small, and grows as it trains."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(family_config(fresh)).eval()
    with torch.no_grad():
        assert keeps_rows_apart(model, torch.arange(16).reshape(2, 8)) == (fresh not in APART_ONLY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fresh", [*FAMILIES, *BENT_HEADS, *APART_ONLY])
def test_sharing_is_judged_rightly_on_fresh_weights(fresh: str, dtype: torch.dtype) -> None:
    """In a narrow type, too, where what leaks is far below the rounding of the outputs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(family_config(fresh), dtype=dtype).eval()
    with torch.no_grad():
        assert bool(shares_prompts(model, torch.arange(16).reshape(2, 8))) == (fresh in ("gemma2", "bloom", "lfm2"))
