"""Engines with weights of their own take those of the policy."""

from __future__ import annotations

from typing import Any

from grpo_lightning.rollout import world


def refresh_engine(module: Any) -> None:
    """Let the engine of a module sample with the weights of now; a collective, if it has weights of its own. What it samples
    ahead is waited for: it is sampled with the weights that it was begun with.

    Raises:
        Exception: What it raises on the first process, on all.
    """
    engine = module.engine
    if not engine.keeps_weights:
        return
    module.session.settle()
    told: list[Any] = []

    def refresh() -> None:
        if world.rank() == 0:
            told.append(engine.refresh(module.policy, module.trainer.global_step))

    world.together(refresh)
    first = world.gather(told)[0]
    if world.rank() != 0:
        engine.join(first[0])
