"""A plan as a page of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grpo_lightning.planning.advice import Change
from grpo_lightning.planning.live_bytes import PARTS
from grpo_lightning.planning.plan import GIB, IDLE_SHARE, RESERVED, Plan, usable
from grpo_lightning.planning.sharding import BUCKETS, total


def page(plan: Plan, title: str, memory: float) -> str:
    """What a plan says, but for advice.

    Args:
        plan: The plan.
        title: What is planned.
        memory: Bytes of each GPU.
    """
    whole, choice = plan.counted.sizes.whole, plan.choice
    spread = " (weights, gradients, moments spread over them)" if choice.sharded else ""
    lines = [
        title,
        "",
        f"parameters   {whole.parameters:,}, of which {whole.trained:,} are trained",
        f"processes    {choice.processes}, strategy {choice.strategy}{spread}, precision {choice.precision}",
        "",
        *_table(plan),
        "",
        _verdict(plan, memory),
        "",
        *_tokens(plan),
    ]
    if choice.batch_rows is None:
        lines += ["", "What the engine holds is not counted: its memory is its own."]
    return "\n".join(lines) + "\n"


def advice(found: Sequence[Change], memory: float) -> str:
    """Changes with what they lead to, the best first."""
    if not found:
        return "\nNothing that can be set makes it smaller: take a smaller model, or shorter completions.\n"
    lines = ["", "What to change, and the peak that it leads to:"]
    for change in found:
        verdict = "fits" if change.plan.fits(memory) else "does not fit"
        lines.append(f"  {change.plan.peak_bytes / GIB:8.2f} GiB  {verdict:<12}  {change.settings}")
    return "\n".join(lines) + "\n"


def _table(plan: Plan) -> list[str]:
    names = list(plan.phases)
    parts = [part for part in (*PARTS, BUCKETS) if any(plan.phases[name].get(part) for name in names)]
    rows = [[part, *(_cell(plan.phases[name], part) for name in names)] for part in parts]
    rows.append(["together", *(f"{total(plan.phases[name]) / GIB:.2f}" for name in names)])
    return table(["GiB a process", *names], rows)


def _cell(parts: Mapping[str, int], part: str) -> str:
    size = parts.get(part, 0)
    return f"{size / GIB:.2f}" if size else "-"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, its first column on the left and numbers on the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = []
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def _verdict(plan: Plan, memory: float) -> str:
    needed, room = plan.peak_bytes / GIB, usable(memory) / GIB
    verdict = "fits" if plan.fits(memory) else "does not fit"
    return (
        f"peak         {needed:.2f} GiB, in {plan.peak_phase}: {verdict} into {memory / GIB:g} GiB a GPU,\n"
        f"             of which {room:.2f} GiB are for tensors ({RESERVED / GIB:g} GiB for the device's context and "
        f"libraries,\n             {IDLE_SHARE:.0%} of the rest for what the allocator cannot use)"
    )


def _tokens(plan: Plan) -> list[str]:
    lengths, batches, processes = plan.lengths, plan.counted.batches, plan.choice.processes
    rows = lengths.groups * lengths.group_size
    update = -(-rows // lengths.updates)
    own = -(-lengths.groups_of(processes) * lengths.group_size // lengths.updates)
    return [
        "tokens a step, at most (every prompt and completion as long as it may be)",
        f"  a rollout samples     {rows * lengths.completion:,} in {rows:,} rows, after prompts of up to {lengths.prompt:,}",
        f"  an update trains      {update * (lengths.prompt + lengths.completion):,} in {update:,} rows, prompts counted "
        "once a row",
        f"  a process trains      {own * (lengths.prompt + lengths.completion):,} of them, in at most {batches.most:,} "
        "micro-batches",
        f"  a micro-batch runs    {batches.tokens:,} on a process, a shared prompt counted once",
    ]
