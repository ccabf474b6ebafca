"""Low-rank adapters (LoRA; Hu et al., arXiv 2106.09685) through peft."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from grpo_lightning.errors import require, require_range


@dataclass(kw_only=True)
class LoRA:
    """Train low-rank adapters and leave the weights as they are; the reference is the adapter switched off.

    Args:
        rank: Rank of the adapters.
        alpha: Their scale is ``alpha / rank``.
        targets: Names of the linear layers that get one, or ``all-linear``.
    """

    rank: int = 16
    alpha: float = 32.0
    targets: list[str] | str = field(default_factory=lambda: "all-linear")

    def __post_init__(self) -> None:
        require_range("rank", self.rank, low=1)
        require_range("alpha", self.alpha, low=0, low_open=True)
        require(bool(self.targets), "targets", self.targets, "is empty", "name layers, or 'all-linear'")

    def apply(self, model: Any) -> Any:
        """``model`` with adapters, of which nothing else trains."""
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,  # type: ignore[arg-type]
            target_modules=self.targets,
            lora_dropout=0.0,
            task_type="CAUSAL_LM",
        )
        return get_peft_model(model, config)


@torch.no_grad()
def merge_and_reset(model: Any) -> None:
    """Add every adapter to the weights below it and start it again from zero: the function stays, the reference moves."""
    from peft.tuners.lora import LoraLayer

    for module in model.modules():
        if isinstance(module, LoraLayer):
            for adapter in module.active_adapters:
                module.get_base_layer().weight += module.get_delta_weight(adapter).to(module.get_base_layer().weight)
                module.reset_lora_parameters(adapter, init_lora_weights=True)
