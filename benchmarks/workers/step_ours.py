"""Whole GRPO steps of this library, one for each order, through ``GRPOModule`` and Lightning's Trainer."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from measuring import training
from measuring.endless import EndlessLM
from measuring.protocol import Channel

from grpo_lightning import __version__


class Gate(Callback):
    """Lets a step begin when it is ordered, and answers when it is over."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.tokens = channel, 0
        self.seconds: dict[str, float] = {}

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        versions = {"grpo_lightning": __version__, "torch": torch.__version__}
        self.channel.ready(versions=versions, threads=torch.get_num_threads(), layout=pl_module.policy.layout)

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch.opens_rollout:
            self.channel.order()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if "rollout" in outputs:
            report = outputs["rollout"]
            self.tokens = report.sampled_steps
            self.seconds = {f"{name}_seconds": report.seconds.get(name, 0.0) for name in ("generate", "collect")}
        if "update" in outputs:
            self.channel.done(generated_tokens=self.tokens, **self.seconds)


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
    module = training.module(
        EndlessLM(model=given.model),
        group=given.group,
        prompts=given.prompts_per_step,
        completion=given.completion,
        budget=given.micro_batch_tokens,
        rate=given.learning_rate,
    )
    texts = json.loads(given.prompts.read_text())
    training.fit(module, texts, given.precision, Gate(Channel()), given.prompts.parent, 100_000)


if __name__ == "__main__":
    main()
