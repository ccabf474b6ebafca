"""One rank of a run on the tiny model: ``python rank.py MODEL_FOLDER RUN_FOLDER RANKS KIND [STRATEGY]``.

Kinds: ``full`` and ``lora``; ``update``, where everything looks at the whole update or rollout; ``group``, a loss of whole
groups and an estimator of steps; ``uneven``, an update for each group; ``exact``, a KL that runs the reference beside the
policy; ``recorded`` and ``replayed``, float32 whose completions are written, or are those; an aggregation's name.
Strategies: those of Lightning, and ``fsdp2-in-step``, which leaves weights sharded.

Started once for each rank, with ``LOCAL_RANK``, ``NODE_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT`` set where
there are several. Rank 0 writes what it saw to ``ranks-N.pt``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from grpo_lightning import create
from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.settings import AuxiliaryTerm, Generation, Warmup
from grpo_lightning.strategies.fsdp2 import FSDP2Strategy
from helpers.tiny_policy import WideNorms
from helpers.tiny_run import fit, make_module

AGGREGATIONS: dict[str, dict[str, Any]] = {
    "constant_length": {"length": 6},
    "sequence_mean_token_mean": {},
    "sequence_mean_token_sum": {},
    "token_mean": {},
    "token_sum": {},
}
"""All but ``prompt_mean``, which the other kinds have; with their arguments."""


def run(model: str, folder: Path, ranks: int, kind: str, strategy: str = "") -> None:
    """A warm-up update, then two rollouts of two updates; five groups, so that ranks have different numbers of rows."""
    torch.manual_seed(3)
    settings: dict[str, Any] = {
        "micro_batch_tokens": 45,
        "prompts_per_rollout": 5,
        "updates_per_rollout": 2,
        "aggregation": create("aggregation", "prompt_mean"),
        "kl": KLTerm(estimator=create("kl", "k2"), weight=0.1),
        "warmup": Warmup(updates=1, rows=5, learning_rate=0.1),
        "generation": Generation(max_new_tokens=6, mask_truncated=True, stop=list("etaoin")),
    }
    if kind == "update":
        settings |= {
            "loss": create("loss", "clip_cov", fraction=0.2, cov_low=-10.0, cov_high=10.0),
            "correction": create("correction", "high_entropy", fraction=0.5, denominator="remaining"),
            "advantage": create("advantage", "reinforce_plus_plus", gamma=0.9),
            "kl": KLTerm(estimator=create("kl", "k1"), weight=0.1, where="reward", target=0.5, horizon=20),
            "entropy": EntropyBonus(weight=0.02, target=3.0),
            "auxiliary": [AuxiliaryTerm(loss=Supervised(weighting="phi"), weight=0.2, complement=True, rows=3)],
        }
    if kind == "uneven":
        # One group an update: on several ranks all but one have nothing to do in it.
        settings |= {"updates_per_rollout": 5}
    if kind == "group":
        settings |= {"loss": create("loss", "real"), "advantage": create("advantage", "otb")}
    if kind == "exact":
        settings |= {"kl": KLTerm(estimator=create("kl", "exact"), weight=0.1)}
    if kind in AGGREGATIONS:
        settings |= {"aggregation": create("aggregation", kind, **AGGREGATIONS[kind])}
    if kind == "recorded":
        settings |= {"record": True}
    if kind == "replayed":
        settings |= {"engine": create("engine", "replay", path=str(folder / "recorded"))}
    if kind in ("lora", "recorded", "replayed"):
        # Small steps: large ones make gradients differ twenty times more with every update, since weights differ by then.
        settings |= {
            "optimizer": partial(torch.optim.SGD, lr=0.01),
            "warmup": Warmup(updates=1, rows=5, learning_rate=0.01),
        }
    lora = LoRA(rank=2) if kind == "lora" else None
    dtype = "float32" if kind in ("recorded", "replayed") else "float64"
    module = make_module(WideNorms(model=model, dtype=dtype, lora=lora), **settings)
    used = FSDP2Strategy(unshard_for_rollout=False) if strategy == "fsdp2-in-step" else strategy
    watch = fit(folder, module, max_steps=5, ranks=ranks, strategy=used)
    if module.global_rank == 0:
        metrics = [report.metrics for report in watch.reports]
        kept = {"weights": watch.weights, "gradients": watch.gradients, "metrics": metrics}
        torch.save(kept, folder / f"ranks-{strategy}{ranks}.pt")


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
