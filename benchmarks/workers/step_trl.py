"""Whole GRPO steps of TRL, one for each order, through ``GRPOTrainer.train``.

Its fastest settings on a CPU: no gradient checkpointing, no reference model, one pass over each rollout, the fused AdamW,
SDPA attention, no logging, whatever rows a forward pass as ``--rows`` says.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import transformers
import trl
from datasets import Dataset
from measuring.protocol import Channel
from measuring.workload import scores
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


class Gate(TrainerCallback):
    """Lets a step begin when it is ordered, and answers when it is over."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.seconds: dict[str, float] = {}
        self.tokens = 0

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        versions = {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__}
        self.channel.ready(versions=versions, threads=torch.get_num_threads())

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.channel.order()
        self.seconds, self.tokens = {}, 0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.channel.done(
            generated_tokens=self.tokens, **{f"{name}_seconds": each for name, each in self.seconds.items()}
        )

    def reward(self, completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        """The reward of the benchmark; counts tokens on the way."""
        self.tokens += sum(len(ids) for ids in completion_ids)
        return scores(completions)

    def timed(self, name: str, call: Any) -> Any:
        """``call``, with its seconds kept under ``name``."""

        def measured(*arguments: Any, **more: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*arguments, **more)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

        return measured


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", type=Path, required=True, help="JSON list of texts")
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--prompts-per-step", type=int, required=True)
    parser.add_argument("--completion", type=int, required=True)
    parser.add_argument("--precision", choices=["32", "bf16-mixed"], required=True)
    parser.add_argument("--rows", type=int, required=True, help="rows of a forward and backward pass")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--cache", default="dynamic", help="cache of generate()")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    rows = given.group * given.prompts_per_step
    gate = Gate(Channel())
    tokenizer = AutoTokenizer.from_pretrained(given.model, padding_side="left")
    nothing = len(tokenizer) + 1_000_000  # an id that no row can draw, so that no row ends before its limit
    config = GRPOConfig(
        output_dir=str(given.prompts.parent / f"trl-{os.getpid()}"),
        use_cpu=True,
        bf16=given.precision == "bf16-mixed",
        model_init_kwargs={"attn_implementation": "sdpa", "dtype": "float32"},
        per_device_train_batch_size=given.rows,
        gradient_accumulation_steps=rows // given.rows,
        num_generations=given.group,
        max_completion_length=given.completion,
        generation_kwargs={"eos_token_id": nothing},
        cache_implementation=None if given.cache == "dynamic" else given.cache,
        gradient_checkpointing=False,
        beta=0.0,
        num_iterations=1,
        learning_rate=given.learning_rate,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        weight_decay=0.0,
        max_grad_norm=0.0,
        max_steps=100_000,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        dataloader_pin_memory=False,
    )
    data = Dataset.from_list([{"prompt": text} for text in json.loads(given.prompts.read_text())])
    trainer = GRPOTrainer(given.model, gate.reward, args=config, train_dataset=data, processing_class=tokenizer,
                          callbacks=[gate])  # fmt: skip
    trainer.eos_token_ids = [nothing]
    trainer._generate = gate.timed("generate", trainer._generate)
    trainer.train()


if __name__ == "__main__":
    main()
