"""Whole GRPO steps of this library, one for each order, through ``GRPOModule`` and Lightning's Trainer."""

from __future__ import annotations

import argparse
import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

from measuring.protocol import Channel
from measuring.workload import scores

channel = Channel()  # before libraries that print are imported

import torch  # noqa: E402
from lightning.pytorch import Callback, Trainer  # noqa: E402

from grpo_lightning import GRPODataModule, GRPOModule, __version__  # noqa: E402
from grpo_lightning.prompts.records import Records  # noqa: E402
from grpo_lightning.rewards.entry import RewardEntry  # noqa: E402
from grpo_lightning.rewards.function import FunctionReward  # noqa: E402
from grpo_lightning.settings import Generation  # noqa: E402
from measuring.endless import EndlessLM  # noqa: E402


def reward(completions: list[str]) -> list[float]:
    """The reward of the benchmark."""
    return scores(completions)


class Gate(Callback):
    """Lets a step begin when it is ordered, and answers when it is over."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.tokens = 0

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        versions = {"grpo_lightning": __version__, "torch": torch.__version__}
        channel.ready(versions=versions, threads=torch.get_num_threads(), layout=pl_module.policy.layout)

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch.opens_rollout:
            channel.order()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if "rollout" in outputs:
            report = outputs["rollout"]
            self.tokens = report.sampled_steps
            self.seconds = {name: report.seconds.get(name, 0.0) for name in ("generate", "collect")}
        if "update" in outputs:
            named = {f"{name}_seconds": each for name, each in self.seconds.items()}
            channel.done(generated_tokens=self.tokens, **named)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompts", type=Path, required=True, help="JSON list of texts")
    parser.add_argument("--group", type=int, required=True)
    parser.add_argument("--prompts-per-step", type=int, required=True)
    parser.add_argument("--completion", type=int, required=True)
    parser.add_argument("--precision", choices=["32", "bf16-mixed"], required=True)
    parser.add_argument("--micro-batch-tokens", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, required=True)
    return parser.parse_args()


def main() -> None:
    given = arguments()
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    texts = json.loads(given.prompts.read_text())
    module = GRPOModule(
        policy=EndlessLM(model=given.model),
        rewards=[RewardEntry(reward=FunctionReward(function=reward))],
        group_size=given.group,
        prompts_per_rollout=given.prompts_per_step,
        micro_batch_tokens=given.micro_batch_tokens,
        generation=Generation(max_new_tokens=given.completion),
        optimizer=partial(torch.optim.AdamW, lr=given.learning_rate, weight_decay=0.0, fused=True),
        seed=0,
    )
    Trainer(
        accelerator="cpu",
        devices=1,
        precision=given.precision,  # type: ignore[arg-type]
        max_steps=100_000,
        max_epochs=-1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        default_root_dir=given.prompts.parent,
        callbacks=[Gate()],
    ).fit(module, GRPODataModule(train=Records(rows=[{"prompt": text} for text in texts])))


if __name__ == "__main__":
    main()
