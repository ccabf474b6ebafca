"""Tiny causal language models with peaked distributions, built in code, and their log-probabilities by plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GenerationConfig, LlamaConfig
from typing_extensions import override

from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.embedded import character_tokenizer
from grpo_lightning.types import Prompt

VOCABULARY = 99
"""Size of the character tokenizer's vocabulary."""
EOS = 1
EMBEDDED = "embedded://tiny-llama"


def small_llama(**changed: Any) -> LlamaConfig:
    """2 layers of width 32 with grouped heads; untied unless ``changed`` says otherwise."""
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": EOS,
        "bos_token_id": None,
    }
    return LlamaConfig(**settings | changed)


@torch.no_grad()
def sharpen(model: torch.nn.Module, *, seed: int = 0, scale: float = 0.25) -> None:
    """Give every parameter of ``model`` addressed values, so large that its distributions are far from uniform.

    Adapters are left as they start.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            continue
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale
        if parameter.dim() == 1:
            parameter.add_(noise.to(parameter.dtype))
        else:
            parameter.copy_(noise.to(parameter.dtype))


@torch.no_grad()
def move(model: torch.nn.Module, *, seed: int, scale: float = 0.02) -> None:
    """Move every trainable parameter a little."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale
            parameter.add_(noise.to(parameter.dtype))


def save_model(
    folder: Path,
    config: Any | None = None,
    *,
    seed: int = 0,
    scale: float = 0.25,
    generation: dict[str, Any] | None = None,
    tokenizer: Any | None = None,
) -> str:
    """Write a random model with the character tokenizer to ``folder`` as ``save_pretrained`` does; returns its path."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(small_llama() if config is None else config, dtype=torch.float32)
    sharpen(model, seed=seed, scale=scale)
    if generation is not None:
        model.generation_config = GenerationConfig(**generation)
    model.save_pretrained(folder)
    (character_tokenizer() if tokenizer is None else tokenizer).save_pretrained(folder)
    return str(folder)


def load_policy(model: str, **settings: Any) -> CausalLM:
    """A loaded policy; in float64 unless ``settings`` says otherwise."""
    policy = WideNorms(model=model, **{"dtype": "float64", **settings})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        policy.load()
    return policy


class WideNorms(CausalLM):
    """A causal language model whose float64 is float64 throughout."""

    @override
    def load(self) -> None:
        super().load()
        if self.dtype == torch.float64:
            widen_norms(self.causal_lm)

    @override
    def outline(self) -> None:
        super().outline()
        if self.dtype == torch.float64:
            widen_norms(self.causal_lm)

    @override
    def freeze_reference(self) -> None:
        super().freeze_reference()
        for reference in self._reference if self.dtype == torch.float64 else []:
            widen_norms(reference)


def widen_norms(model: torch.nn.Module) -> None:
    """Let Llama's norms compute in the type of their input: they round to float32, also on the way back, and what is added up
    before or after that rounding then differs by 1e-7."""

    def forward(norm: Any, hidden: Tensor) -> Tensor:
        return norm.weight * (hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + norm.variance_epsilon))

    for module in model.modules():
        if type(module).__name__ == "LlamaRMSNorm":
            module.forward = MethodType(forward, module)


def tiny_policy(*, seed: int = 0, **settings: Any) -> CausalLM:
    """The embedded model with peaked distributions, in float64 unless ``settings`` says otherwise."""
    policy = load_policy(EMBEDDED, **settings)
    sharpen(policy.causal_lm, seed=seed, scale=0.12)
    return policy


def text_prompt(text: Any = "7+8=", index: int = 0, **columns: Any) -> Prompt:
    """A prompt of the data set ``train``."""
    return Prompt("train", index, text, columns)


def row_distributions(model: Any, prompt: Sequence[int], actions: Sequence[int], temperature: float = 1.0) -> Tensor:
    """[steps, V] float64: log-probabilities of every step of one row, by a pass over that row alone."""
    logits = model(input_ids=torch.tensor([[*prompt, *actions]], device=model.device), use_cache=False).logits[0]
    rows = []
    for step in range(len(actions)):
        scaled = logits[len(prompt) + step - 1].double() / temperature
        largest = scaled.max().detach()
        rows.append(scaled - largest - (scaled - largest).exp().sum().log())
    return torch.stack(rows) if rows else logits.new_zeros(0, logits.shape[-1])


def on_support(log_probs_V: Tensor, support: Sequence[int]) -> Tensor:
    """[V]: one step's distribution restricted to ``support``; everything where it is empty."""
    if not len(support):
        return log_probs_V
    inside = log_probs_V[torch.as_tensor(list(support), dtype=torch.int64)]
    largest = inside.max().detach()
    return log_probs_V - largest - (inside - largest).exp().sum().log()


def gradients(module: torch.nn.Module) -> dict[str, Tensor]:
    """Gradient of every trainable parameter by name, zero where it has none; and it is cleared."""
    result = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            grad = parameter.grad
            result[name] = torch.zeros_like(parameter) if grad is None else grad.clone()
            parameter.grad = None
    return result


def relative(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Relative L2 difference of two sets of tensors, all of them together."""
    assert found.keys() == wanted.keys()
    difference = sum(float(((found[name].double() - wanted[name].double()) ** 2).sum()) for name in wanted)
    size = sum(float((wanted[name].double() ** 2).sum()) for name in wanted)
    return float((difference / size) ** 0.5)


def worst_relative(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Largest relative L2 difference of a single tensor of the two sets."""
    return max(relative({name: found[name]}, {name: wanted[name]}) for name in wanted if bool(wanted[name].any()))
