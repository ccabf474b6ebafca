"""Models on disk, in the format that every side reads. Needs this library."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def exported(address: str, scratch: Path) -> Path:
    """The folder of a model in Hugging Face format, written on the first call."""
    import torch

    from grpo_lightning.policies.causal_lm import CausalLM

    name = "".join(letter if letter.isalnum() else "_" for letter in address)
    folder, done = scratch / "models" / name, scratch / "models" / f"{name}.done"
    if not done.exists():
        torch.manual_seed(0)
        policy = CausalLM(model=address)
        policy.load()
        policy.export(folder)
        done.touch()
    return folder


def loaded(folder: Path, **settings: Any) -> Any:
    """A policy with the weights of ``folder``, that nothing but its limit ends: every row writes as much as it may."""
    from measuring.endless import EndlessLM

    policy = EndlessLM(model=str(folder), **settings)
    policy.load()
    return policy


def rows(prompts: list[list[int]], group: int, completion: int) -> Any:
    """Rollouts of ``group`` rows a prompt, ``completion`` steps each, as a policy trains them."""
    import torch

    from grpo_lightning.types import Ragged, Rollouts

    count = len(prompts) * group
    generator = torch.Generator().manual_seed(1)
    top = max(max(prompt) for prompt in prompts)
    actions = torch.randint(0, top, (count * completion,), generator=generator)
    prompt_R = torch.arange(len(prompts)).repeat_interleave(group)
    zeros_R = torch.zeros(count, dtype=torch.int64)
    return Rollouts(
        prompts=Ragged.from_list(prompts, torch.int64),
        prompt_R=prompt_R,
        group_R=prompt_R.clone(),
        member_R=torch.arange(count) % group,
        trajectory_R=torch.arange(count),
        attempt_R=zeros_R,
        finish_R=zeros_R + 1,
        temperature_R=torch.ones(count),
        version_R=zeros_R,
        actions=Ragged(actions, torch.arange(0, count * completion + 1, completion)),
        trainable_S=torch.ones(count * completion, dtype=torch.bool),
        turn_S=torch.zeros(count * completion, dtype=torch.int64),
        behaviour_log_probs_S=torch.full((count * completion,), -1.0),
    )


def request(prompts: list[list[int]], group: int, limits: list[int], round_: int) -> Any:
    """A request for ``group`` completions of each prompt, at temperature 1, row by row as long as ``limits`` say."""
    import torch

    from grpo_lightning import create
    from grpo_lightning.engines.base import GenerationRequest
    from grpo_lightning.types import Ragged

    group_Q = torch.arange(len(prompts)).repeat_interleave(group)
    member_Q = torch.arange(len(prompts) * group) % group
    zeros_Q = torch.zeros_like(group_Q)
    return GenerationRequest(
        contexts=Ragged.from_list(prompts, torch.int64),
        context_Q=group_Q,
        address_QA=torch.stack([zeros_Q + round_, group_Q, zeros_Q, member_Q, zeros_Q], dim=1),
        sampler=create("sampler", "temperature"),
        seed=0,
        stream="train",
        limit_Q=torch.tensor(limits),
        stop_ids=frozenset(),
    )
