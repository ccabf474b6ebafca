"""The share of a step that is not arithmetic of the model.

Whole steps of this library through Lightning's Trainer. Arithmetic is what runs inside the model's calls while sampling, the
policy's forward, the backward pass and the optimizer's step. Everything else is outside: drawing tokens, texts and rewards,
advantages, dealing rows, the gradient's norm, reports, Lightning.

    python benchmarks/overhead.py                      about 4 minutes on two cores
    python benchmarks/overhead.py --quick              half a minute
"""

from __future__ import annotations

import argparse
from typing import Any

from measuring import models, options, pairs, results

GROUP, PROMPTS, COMPLETION = 8, 2, 64
LENGTHS = (44, 512)
PRECISIONS = ("32", "bf16-mixed")


def arguments() -> argparse.Namespace:
    return options.settled(options.parser(__doc__).parse_args())


def main() -> None:
    given = arguments()
    from measuring import stopwatch, training

    lengths, completion = ((12,), 6) if given.quick else (LENGTHS, COMPLETION)
    folder = models.exported(given.model, given.scratch)
    cases: list[dict[str, Any]] = []
    for length in lengths:
        texts = training.texts_for(folder, length, 32)
        for precision in PRECISIONS:
            print(f"prompt of {length} tokens, {precision}")
            budget = training.one_group(GROUP, length, completion)
            module = training.module(
                models.loaded(folder), group=GROUP, prompts=PROMPTS, completion=completion, budget=budget
            )
            steps = stopwatch.Steps()
            training.fit(module, texts, precision, steps, given.scratch, given.repeats + 1)
            cases.append({"prompt_tokens": length, "precision": precision} | pairs.summary(steps.measured[1:]))
    settings = {"group": GROUP, "prompts": PROMPTS, "completion": completion, "lengths": list(lengths)}
    results.finish(given, "overhead", settings, cases)


if __name__ == "__main__":
    main()
