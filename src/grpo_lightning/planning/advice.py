"""What to change when a run does not fit, each change with what it leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from grpo_lightning.module import GRPOModule
from grpo_lightning.planning.choice import Choice
from grpo_lightning.planning.plan import Plan, make_plan
from grpo_lightning.policies.lora import LoRA


@dataclass(frozen=True)
class Change:
    """One change, and the plan that it leads to."""

    settings: str
    """What to write on the command line."""
    plan: Plan


def changes(module: GRPOModule, plan: Plan, fits: Callable[[Plan], bool]) -> list[Change]:
    """Single changes that make a plan smaller, the one that saves most first; and all together, if none alone suffices.

    Args:
        module: The module of the plan.
        plan: What does not fit.
        fits: Whether a plan does.
    """
    singles = [(words, choice) for words, choice in _choices(plan.choice, plan)]
    made = [Change(words, make_plan(module, choice, plan.lengths)) for words, choice in singles]
    useful = [change for change in made if change.plan.peak_bytes < plan.peak_bytes]
    useful.sort(key=lambda change: change.plan.peak_bytes)
    if len(useful) > 1 and not any(fits(change.plan) for change in useful):
        useful += _together(module, plan, useful, fits)
    return useful


def _together(module: GRPOModule, plan: Plan, useful: list[Change], fits: Callable[[Plan], bool]) -> list[Change]:
    """Changes one after the other until they suffice: adapters last, since they train another model."""
    order = sorted(useful, key=lambda change: (change.plan.choice.lora is not plan.choice.lora, change.plan.peak_bytes))
    choice, words, taken = plan.choice, [], set[str]()
    best: Change | None = None
    for change in order:
        different = _difference(plan.choice, change.plan.choice)
        if taken & different.keys():
            continue
        taken |= different.keys()
        words.append(change.settings)
        choice = choice.but(**different)
        if len(words) == 1:
            continue
        best = Change(" ".join(words), make_plan(module, choice, plan.lengths))
        if fits(best.plan):
            break
    return [] if best is None else [best]


def _difference(before: Choice, after: Choice) -> dict[str, object]:
    return {name: value for name, value in vars(after).items() if value != getattr(before, name)}


def _choices(choice: Choice, plan: Plan) -> Iterator[tuple[str, Choice]]:
    row = plan.lengths.prompt + plan.lengths.completion
    if choice.processes > 1 and "weights" not in choice.spreads:
        yield "--trainer.strategy fsdp2", choice.but(strategy="fsdp2")
    if "weights" in choice.spreads and choice.unshard_for_rollout and choice.strategy == "fsdp2":
        yield (
            "--trainer.strategy.class_path grpo_lightning.strategies.fsdp2.FSDP2Strategy "
            "--trainer.strategy.init_args.unshard_for_rollout false",
            choice.but(unshard_for_rollout=False),
        )
    if not choice.activation_checkpointing:
        yield "--model.policy.activation_checkpointing true", choice.but(activation_checkpointing=True)
    smaller = max(row, min(choice.micro_batch_tokens, plan.counted.batches.tokens) // 4)
    if smaller < plan.counted.batches.tokens:
        yield f"--model.micro_batch_tokens {smaller}", choice.but(micro_batch_tokens=smaller)
    if choice.lora is None:
        yield "--model.policy.lora.rank 16", choice.but(lora=LoRA())
    if choice.precision in ("32-true", "32", "bf16-mixed", "16-mixed"):
        yield "--trainer.precision bf16-true", choice.but(precision="bf16-true")
    if choice.batch_rows is not None:
        rows = min(choice.batch_rows, plan.lengths.groups_of(choice.processes) * plan.lengths.group_size)
        if rows > 8:
            yield f"--model.engine.batch_rows {rows // 4}", choice.but(batch_rows=rows // 4)
    more = choice.processes * 2
    strategy = choice.strategy if choice.spreads or choice.processes > 1 else "fsdp2"
    if plan.lengths.groups >= more:
        yield (
            f"--gpus {more}" + ("" if strategy == choice.strategy else f" --trainer.strategy {strategy}"),
            choice.but(processes=more, strategy=strategy),
        )
