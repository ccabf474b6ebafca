"""Completions by transformers' ``generate``, one batch for each order: sampled, SDPA attention, bf16.

A row that has reached its limit stays in the batch until the last one has, which is what ``generate`` does; a stopping
criterion ends each row where it should.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
import transformers
from measuring.protocol import Channel
from transformers import AutoModelForCausalLM, GenerationConfig, StoppingCriteria, StoppingCriteriaList


class Limits(StoppingCriteria):
    """A row is done when it has written as much as it may."""

    def __init__(self, prompt: int, limits: list[int]) -> None:
        self.ends = prompt + torch.tensor(limits)

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        return input_ids.shape[1] >= self.ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--cache", default="dynamic")
    given = parser.parse_args()
    channel = Channel()
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
    channel.ready(versions={"transformers": transformers.__version__, "torch": torch.__version__})
    while True:
        order = channel.order()
        ids = torch.tensor(order["prompts"]).repeat_interleave(order["group"], 0)
        limits = order["limits"]
        config = GenerationConfig(
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            max_new_tokens=max(limits),
            eos_token_id=None,
            pad_token_id=0,
            cache_implementation=None if given.cache == "dynamic" else given.cache,
            disable_compile=True,
        )
        model.generation_config = config
        with torch.no_grad():
            output = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                stopping_criteria=StoppingCriteriaList([Limits(ids.shape[1], limits)]),
            )
        written = output.shape[1] - ids.shape[1]
        channel.done(generated_tokens=sum(min(limit, written) for limit in limits))


if __name__ == "__main__":
    main()
