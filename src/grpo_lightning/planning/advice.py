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
    """Single changes that make a plan smaller, the one that saves most first; and several together, if none alone suffices.

    Args:
        module: The module of the plan.
        plan: What does not fit.
        fits: Whether a plan does.
    """
    made = [Change(words, make_plan(module, choice, plan.lengths)) for words, choice in _choices(plan.choice, plan)]
    made.sort(key=lambda change: change.plan.peak_bytes)
    useful = [change for change in made if change.plan.peak_bytes < plan.peak_bytes]
    if any(fits(change.plan) for change in useful):
        return useful
    together = _together(module, plan, made, fits)
    return useful if together is None else [*useful, together]


def _together(module: GRPOModule, plan: Plan, single: list[Change], fits: Callable[[Plan], bool]) -> Change | None:
    """One change after the other that makes the peak smaller, until they suffice; those too that save nothing alone, since
    another phase needs most by then. Adapters come last, since they train another model."""
    best, words = plan, list[str]()
    for change in sorted(single, key=lambda change: change.plan.choice.lora is not plan.choice.lora):
        different = _difference(plan.choice, change.plan.choice)
        if any(getattr(best.choice, name) != getattr(plan.choice, name) for name in different):
            continue  # something was chosen for it
        more = change.plan if best is plan else make_plan(module, best.choice.but(**different), plan.lengths)
        if more.peak_bytes < best.peak_bytes:
            best, words = more, [*words, change.settings]
        if fits(best):
            break
    return Change(" ".join(words), best) if len(words) > 1 else None


def _difference(before: Choice, after: Choice) -> dict[str, object]:
    return {name: value for name, value in vars(after).items() if value != getattr(before, name)}


def _choices(choice: Choice, plan: Plan) -> Iterator[tuple[str, Choice]]:
    row = plan.lengths.prompt + plan.lengths.completion
    if choice.processes > 1 and not choice.sharded:
        yield "--trainer.strategy fsdp2", choice.but(strategy="fsdp2")
    if choice.sharded and choice.unshard_for_rollout:
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
    strategy = choice.strategy if choice.processes > 1 else "fsdp2"
    if plan.lengths.groups >= more:
        yield (
            f"--gpus {more}" + ("" if strategy == choice.strategy else f" --trainer.strategy {strategy}"),
            choice.but(processes=more, strategy=strategy),
        )
