"""The phases of a run on tensors without numbers, and what is alive when most of it is."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from grpo_lightning.functional import prompt_attention
from grpo_lightning.functional.linear_head import tiles
from grpo_lightning.functional.replaced_tensors import replace_tensors
from grpo_lightning.module import GRPOModule
from grpo_lightning.planning.choice import Choice
from grpo_lightning.planning.live_bytes import GRADIENTS, OPTIMIZER, REFERENCE, WEIGHTS, LiveBytes
from grpo_lightning.planning.rows import Batches, Lengths, batches, longest_rows
from grpo_lightning.planning.sampling import sample
from grpo_lightning.planning.sizes import Sizes, sizes_of
from grpo_lightning.policies.attention import AttentionRefusedError
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Rollouts

ROLLOUT, SCORING, UPDATE, STEP = "rollout", "scoring", "forward and backward", "optimizer step"

_TRUE_TYPES = {"bf16-true": torch.bfloat16, "16-true": torch.float16, "64-true": torch.float64, "bf16": torch.bfloat16}
_AUTOCAST = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


@dataclass(frozen=True)
class Counted:
    """What one process would hold that shares nothing with others."""

    phases: Mapping[str, Mapping[str, int]]
    """Bytes by part when most are alive in a phase, by the phase's name."""
    sizes: Sizes
    batches: Batches


def count(module: GRPOModule, choice: Choice, lengths: Lengths, *, policy: Policy | None = None) -> Counted:
    """Run the phases of training once, as they are after the first update: with gradients and moments there.

    Args:
        module: The module of a configuration, its policy prepared and not loaded; it stays so.
        choice: Settings instead of the module's.
        lengths: What a rollout asks for.
        policy: Instead of the module's.

    Raises:
        ConfigError: If the policy cannot be built without its weights.
    """
    live = LiveBytes()
    policy, few = _policy(policy or module.policy, choice), longest_rows(Lengths(2, 2, 2, 1, 1), 1)
    with live, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensors without numbers
        with torch.device("meta"):
            policy.outline()
        with live.counting(WEIGHTS):
            replace_tensors(policy, _counted)
        _choose_layout(policy, few)
        if module.objective.needs_reference:
            with live.counting(REFERENCE), live.fake:
                policy.freeze_reference()
        trained = [each for each in policy.parameters() if each.requires_grad]
        optimizer = _trained_once(live, module, trained)
        sizes = sizes_of(policy)
    made = _batches(module, policy, choice, lengths)
    rollouts = longest_rows(lengths, lengths.groups_of(choice.processes))
    phases: dict[str, Mapping[str, int]] = {}
    with live, warnings.catch_warnings(), _as_on(choice):
        warnings.simplefilter("ignore")
        if choice.batch_rows is not None:
            with _phase(live, phases, ROLLOUT), autocast(choice):
                sample(live, policy, module.engine, module.sampler, rollouts, choice)
        if module.objective.needs_reference_log_probs or module.objective.needs_preview or _several(module):
            with _phase(live, phases, SCORING), autocast(choice), torch.no_grad():
                policy(made.largest)
        with _phase(live, phases, UPDATE):
            _train(module, policy, made, choice, optimizer)
        with _phase(live, phases, STEP), live.counting(OPTIMIZER):
            optimizer.step()
    return Counted(phases, sizes, made)


def autocast(choice: Choice) -> AbstractContextManager[Any]:
    """What Lightning's precision lays around a training step."""
    narrow = _AUTOCAST.get(choice.precision)
    return nullcontext() if narrow is None else torch.autocast("cpu", dtype=narrow)


def private_copy(configured: Policy) -> Policy:
    """A policy with the same settings whose configuration and modules are its own."""
    policy: Any = copy.copy(configured)
    policy.__dict__ = dict(configured.__dict__)
    for name in ("_parameters", "_buffers", "_modules"):
        policy.__dict__[name] = dict(configured.__dict__[name])
    policy.config = copy.deepcopy(policy.config)
    policy._reference = []
    return policy  # type: ignore[no-any-return]


def _policy(configured: Policy, choice: Choice) -> Policy:
    policy: Any = private_copy(configured)
    policy.activation_checkpointing, policy.lora = choice.activation_checkpointing, choice.lora
    policy.dtype = _TRUE_TYPES.get(choice.precision, policy.dtype)
    return policy  # type: ignore[no-any-return]


def _counted(name: str, each: Tensor) -> Tensor:
    """A tensor that is counted, in the place of one of no device."""
    if not each.is_meta:
        return each
    like = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype)
    return nn.Parameter(like, each.requires_grad) if isinstance(each, nn.Parameter) else like


def _choose_layout(policy: Any, few: Rollouts) -> None:
    """As loading would: by trying, but for what only numbers can tell."""
    if policy.layout == "shared":
        try:
            with torch.no_grad():
                policy(few)
        except AttentionRefusedError:
            policy.layout = "padded"


def _trained_once(live: LiveBytes, module: GRPOModule, trained: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer after an update, whose gradients are still there."""

    def accumulated(parameter: Tensor) -> None:
        assert parameter.grad is not None
        live.rename(parameter.grad, GRADIENTS)

    for each in trained:
        each.register_post_accumulate_grad_hook(accumulated)  # type: ignore[no-untyped-call]
    with live.counting(GRADIENTS):
        for each in trained:
            each.grad = torch.zeros_like(each)
    make = module._optimizer
    optimizer: torch.optim.Optimizer = (
        torch.optim.AdamW(trained, lr=module.learning_rate, fused=True) if make is None else make(trained)
    )
    with live.counting(OPTIMIZER):
        optimizer.step()
    return optimizer


def _batches(module: GRPOModule, policy: Policy, choice: Choice, lengths: Lengths) -> Batches:
    whole = module.objective.loss.scope == "group"
    shared = policy.shares_prompts
    return batches(lengths, choice.processes, choice.micro_batch_tokens, shared=shared, whole_groups=whole)


def _several(module: GRPOModule) -> bool:
    return module.epochs_per_rollout * module.updates_per_rollout > 1


def _train(module: GRPOModule, policy: Policy, made: Batches, choice: Choice, optimizer: torch.optim.Optimizer) -> None:
    objective = module.objective
    observed = {"entropy"} | (objective.correction.functionals if objective.correction is not None else set())
    with autocast(choice):
        found = policy(made.largest, objective.functionals, observed=tuple(sorted(observed)))
    if made.alone and not module.auxiliary:  # else a second micro-batch finds the gradients of the first
        optimizer.zero_grad()
    learned = [found[name].sum() for name in ("log_prob", *sorted(objective.functionals))]
    del found
    torch.stack(learned).sum().backward()  # type: ignore[no-untyped-call]


@contextmanager
def _phase(live: LiveBytes, phases: dict[str, Mapping[str, int]], name: str) -> Iterator[None]:
    live.restart()
    yield
    phases[name] = Counter({part: size for part, size in live.peak.items() if size})


@contextmanager
def _as_on(choice: Choice) -> Iterator[None]:
    """Let attention and head go the ways that they go on the device of a choice.

    The head's tiles go in one piece each: strips spare a cache, and would take most of the time of counting.
    """
    before = tiles.LARGEST_STRIP, tiles.LARGEST_TILE
    tiles.LARGEST_STRIP = tiles.LARGEST_TILE = before[1] if choice.on_cpu else tiles.LARGEST_ELSEWHERE
    piecewise = prompt_attention.PIECEWISE
    prompt_attention.PIECEWISE = piecewise if choice.on_cpu else set()
    try:
        yield
    finally:
        (tiles.LARGEST_STRIP, tiles.LARGEST_TILE), prompt_attention.PIECEWISE = before, piecewise
