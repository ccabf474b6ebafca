"""How time and memory grow with group size, prompt length, completion length and rows.

One of them changes at a time, the others stay at 4 rows a group, prompts of 64 and completions of 32 tokens, 2 prompts a
step. The exponent is the slope of the least squares line through the logarithms; next to it stands the exponent of what is
counted: operations of a step, operations of sampling, and tokens of the largest micro-batch, which decide its memory. What
grows faster than counted, by more than 0.1, is marked.

    python benchmarks/growth.py                        about 10 minutes on two cores
    python benchmarks/growth.py --quick                a minute
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from measuring import models, operations, options, pairs, results
from measuring.fitting import exponent

BASE = {"group": 4, "prompt": 64, "completion": 32, "prompts": 2}
AXES = {
    "group": (2, 4, 8, 16),
    "prompt": (64, 128, 256, 512, 1024),
    "completion": (16, 32, 64, 128, 256),
    "prompts": (1, 2, 4, 8),
}
QUICK_BASE = {"group": 2, "prompt": 12, "completion": 4, "prompts": 1}
QUICK_AXES = {"group": (2, 4), "prompt": (12, 24), "completion": (4, 8), "prompts": (1, 2)}
EXPLAINED = 0.1
"""How much faster than counted a cost may grow before it is marked."""


def arguments() -> argparse.Namespace:
    parser = options.parser(__doc__)
    parser.add_argument("--precision", choices=["32", "bf16-mixed"], default="32")
    parser.add_argument("--axis", choices=[*AXES], action="append", help="only this one (may be repeated)")
    return options.settled(parser.parse_args())


def main() -> None:
    given = arguments()
    base, axes = (QUICK_BASE, QUICK_AXES) if given.quick else (BASE, AXES)
    folder = models.exported(given.model, given.scratch)
    policy = models.loaded(folder)
    cases = []
    for axis in given.axis or axes:
        points = [point(given, policy, folder, base | {axis: size}) for size in axes[axis]]
        cases.append({"axis": axis, "sizes": list(axes[axis]), "points": points, "growth": fitted(axes[axis], points)})
    settings = {"base": base, "axes": {axis: list(axes[axis]) for axis in given.axis or axes},
                "precision": given.precision}  # fmt: skip
    results.finish(given, "growth", settings, cases)


def point(given: argparse.Namespace, policy: Any, folder: Path, size: dict[str, int]) -> dict[str, Any]:
    """A few steps of one size, and what is counted for it."""
    from measuring import stopwatch, training

    print(", ".join(f"{name} {value}" for name, value in size.items()))
    budget = training.one_group(size["group"], size["prompt"], size["completion"])
    module = training.module(
        policy, group=size["group"], prompts=size["prompts"], completion=size["completion"], budget=budget
    )
    steps = stopwatch.Steps()
    texts = training.texts_for(folder, size["prompt"], 16)
    training.fit(module, texts, given.precision, steps, given.scratch, given.repeats + 1)
    measured = pairs.summary(steps.measured[1:])
    print(f"  {measured['seconds']['median']:.3f} s")
    return {"size": size, "measured": measured, "counted": counted(policy, size)}


def counted(policy: Any, size: dict[str, int]) -> dict[str, float]:
    """Operations of a step and of sampling, and tokens of the largest micro-batch."""
    shape = operations.Shape.of(policy.config)
    counts = size["group"], size["prompt"], size["completion"]
    sampling = operations.generate_shared(shape, *counts).times(size["prompts"]).total
    train = operations.train_shared if policy.layout == "shared" else operations.train_dense
    return {
        "seconds": sampling + train(shape, *counts).times(size["prompts"]).total,
        "generate": sampling,
        "above_bytes": float(operations.tokens(*counts, shared=policy.layout == "shared")),
    }


def fitted(sizes: tuple[int, ...], points: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Exponents of what was measured and of what was counted."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("seconds", "generate", "above_bytes"):
        measured = exponent(sizes, [max(1e-9, each["measured"][name]["median"]) for each in points])
        expected = exponent(sizes, [each["counted"][name] for each in points])
        found[name] = {"measured": measured, "counted": expected, "explained": measured <= expected + EXPLAINED}
    return found


if __name__ == "__main__":
    main()
