"""A run of this library as the benchmarks make it. Needs this library."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from grpo_lightning import GRPODataModule, GRPOModule
from grpo_lightning.prompts.records import Records
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.settings import Generation
from measuring.workload import scores


def reward(completions: list[str]) -> list[float]:
    """The reward of the benchmarks."""
    return scores(completions)


def alternating(completions: list[str]) -> list[float]:
    """A reward by which every group has something to learn, whatever is written."""
    return [float(index % 2) for index in range(len(completions))]


def one_group(group: int, prompt: int, completion: int) -> int:
    """A budget of tokens that makes one micro-batch of each group whose prompt is run once."""
    return prompt + group * completion


def module(policy: Any, *, group: int, prompts: int, completion: int, budget: int, rate: float = 1e-6) -> GRPOModule:
    """A GRPO step with everything as it is by default."""
    return GRPOModule(
        policy=policy,
        rewards=[RewardEntry(reward=FunctionReward(function=reward))],
        group_size=group,
        prompts_per_rollout=prompts,
        micro_batch_tokens=budget,
        generation=Generation(max_new_tokens=completion),
        learning_rate=rate,
        seed=0,
    )


def fit(made: GRPOModule, texts: Sequence[str], precision: Any, watch: Callback, folder: Path, steps: int) -> None:
    """Train for ``steps`` steps, with nothing logged and nothing saved."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    Trainer(
        accelerator="cpu",
        devices=1,
        precision=precision,
        max_steps=steps,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        default_root_dir=folder,
        callbacks=[watch],
    ).fit(made, GRPODataModule(train=Records(rows=[{"prompt": text} for text in texts])))


def texts_for(folder: Path, tokens: int, count: int) -> list[str]:
    """Prompts of exactly ``tokens`` tokens of the tokenizer in ``folder``."""
    from transformers import AutoTokenizer

    from measuring.workload import prompts

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return prompts(lambda text: len(tokenizer(text)["input_ids"]), tokens, count)
