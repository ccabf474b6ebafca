"""Short runs of the real Lightning loop on a tiny model, with whatever is wanted of them kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from torch import Tensor
from torch.distributed.tensor import DTensor

from grpo_lightning import GRPODataModule, GRPOModule, create
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.prompts.records import Records
from grpo_lightning.reports import RolloutReport, UpdateReport
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.settings import Generation
from grpo_lightning.types import Rollouts

PROMPTS = ["7+8=", "ab", "3*3-1=", "z", "hello ", "12345"]


def spread(completions: Sequence[str]) -> list[float]:
    """A score between 0 and 1 that hardly ever is the same for two different texts."""
    return [sum(index * ord(letter) for index, letter in enumerate(text, 1)) % 17 / 16 for text in completions]


def unsharded(tensor: Tensor) -> Tensor:
    """The whole of what may be one rank's part; a collective."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class Watch(Callback):
    """Keeps what each update was made of, its gradient, and the weights after it."""

    def __init__(self) -> None:
        self.reports: list[UpdateReport] = []
        self.rollout_reports: list[RolloutReport] = []
        self.rollouts: list[Rollouts] = []
        self.weights: list[dict[str, Tensor]] = []
        self.optimizer_states: list[dict[int, dict[str, Tensor]]] = []
        self.gradients: list[dict[str, Tensor]] = []

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: GRPOModule, optimizer: torch.optim.Optimizer
    ) -> None:  # type: ignore[override]
        trained = [(name, each.grad) for name, each in pl_module.policy.named_parameters()]
        self.gradients.append({name: unsharded(grad).clone() for name, grad in trained if grad is not None})

    def on_train_start(self, trainer: Trainer, pl_module: GRPOModule) -> None:  # type: ignore[override]
        self._keep(trainer, pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: GRPOModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:  # type: ignore[override]
        if "rollout" in outputs:
            assert pl_module.session is not None
            assert pl_module.session.buffer is not None
            self.rollout_reports.append(outputs["rollout"])
            self.rollouts.append(pl_module.session.buffer.rollouts)
        if "update" in outputs:
            self.reports.append(outputs["update"])
            self._keep(trainer, pl_module)

    def _keep(self, trainer: Trainer, module: GRPOModule) -> None:
        self.weights.append({name: unsharded(each.detach()).clone() for name, each in module.policy.named_parameters()})
        state = trainer.optimizers[0].state_dict()["state"]
        self.optimizer_states.append(
            {i: {k: unsharded(torch.as_tensor(v)).clone() for k, v in s.items()} for i, s in state.items()}
        )

    def change(self, update: int) -> dict[str, Tensor]:
        """Weights after update ``update``, counted from 0, less those before it."""
        before, after = self.weights[update], self.weights[update + 1]
        return {name: after[name] - before[name] for name in after}

    def metrics(self, update: int) -> dict[str, float]:
        """Reported numbers of an update, counted from 0."""
        return self.reports[update].metrics


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """Steps by the gradient itself."""
    return torch.optim.SGD(parameters, lr=1.0)


def make_module(policy: CausalLM, **settings: Any) -> GRPOModule:
    """A module with groups of 4, three a rollout, and a reward that tells texts apart."""
    defaults: dict[str, Any] = {
        "rewards": [RewardEntry(reward=FunctionReward(function=spread))],
        "group_size": 4,
        "prompts_per_rollout": 3,
        "micro_batch_tokens": 10_000,
        "generation": Generation(max_new_tokens=6),
        "optimizer": sgd,
        "seed": 0,
    }
    return GRPOModule(policy=policy, **defaults | settings)


def fit(
    folder: Path,
    module: GRPOModule,
    *,
    max_steps: int = 1,
    data: GRPODataModule | None = None,
    ranks: int = 1,
    strategy: Any = "",
    **trainer: Any,
) -> Watch:
    """Train and watch. Each of several ``ranks`` is a process that was started by someone else."""
    watch = Watch()
    if data is None:
        rows = [{"prompt": prompt, "answer": str(index)} for index, prompt in enumerate(PROMPTS)]
        data = GRPODataModule(train=Records(rows=rows), curriculum=create("curriculum", "sequential"))
    Trainer(
        accelerator="cpu",
        devices=ranks,
        strategy=strategy or ("ddp" if ranks > 1 else "auto"),
        max_steps=max_steps,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        callbacks=[watch],
        **trainer,
    ).fit(module, data)
    return watch
