"""How far each phase of a step is from what the machine multiplies at the same shapes.

The roof of a phase is the time that bare products with all of the model's own weights take, one after the other, at the
phase's number of rows, in its type, and by the faster of the libraries that torch has on this processor: for a backward pass,
the two products of each layer. What a phase takes beyond that is attention, elementwise work, copies and Python. The phases are
those of ``fit --profile``.

    python benchmarks/roof.py                          about 4 minutes on two cores
    python benchmarks/roof.py --quick                  half a minute
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from measuring import machine, models, options, pairs, results

GROUP, PROMPTS, COMPLETION = 8, 2, 64
LENGTHS = (44, 512)
PRECISIONS = ("32", "bf16-mixed")


def main() -> None:
    given = options.settled(options.parser(__doc__).parse_args())
    import torch

    lengths, completion = ((12,), 6) if given.quick else (LENGTHS, COMPLETION)
    folder = models.exported(given.model, given.scratch)
    cases: list[dict[str, Any]] = []
    for length in lengths:
        for precision in PRECISIONS:
            dtype = torch.float32 if precision == "32" else torch.bfloat16
            print(f"prompt of {length} tokens, {precision}")
            seconds, operations = profiled(given, folder, length, completion, precision)
            roofs = roof_seconds(folder, length, completion, dtype, given.repeats)
            phases = {
                name: {
                    "seconds": seconds[name],
                    "gflops": operations[name] / seconds[name],
                    "roof_seconds": roofs[name],
                    "roof_share": {key: value / seconds[name] for key, value in roofs[name].items() if key != "count"},
                }
                for name in roofs
            }
            peak = machine.peak_rate(dtype) / 1e9
            cases.append({"prompt_tokens": length, "precision": precision, "peak_gflops": peak, "phases": phases})
    settings = {"group": GROUP, "prompts": PROMPTS, "completion": completion, "lengths": list(lengths)}
    results.finish(given, "roof", settings, cases)


def profiled(
    given: argparse.Namespace, folder: Any, length: int, completion: int, precision: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds and GFLOP of each phase in a step, over ``repeats`` steps."""
    from measuring import training

    from grpo_lightning.callbacks.phase_profile import PhaseProfile

    place = given.scratch / f"roof_{length}_{precision}"
    place.mkdir(parents=True, exist_ok=True)
    budget = training.one_group(GROUP, length, completion)
    module = training.module(models.loaded(folder), group=GROUP, prompts=PROMPTS, completion=completion, budget=budget)
    texts = training.texts_for(folder, length, 32)
    training.fit(module, texts, precision, PhaseProfile(), place, given.repeats)
    rows = {row["phase"]: row for row in json.loads((place / "profile.json").read_text())["phases"]}
    names = ("prefill", "decode", "forward", "head", "backward")
    steps = given.repeats
    return (
        {name: rows[name]["seconds"] / steps for name in names},
        {name: rows[name]["gflop"] / steps for name in names},
    )


def roof_seconds(folder: Any, length: int, completion: int, dtype: Any, repeats: int) -> dict[str, dict[str, float]]:
    """Seconds of the bare products of each phase in a step."""
    policy = models.loaded(folder)
    head = policy.causal_lm.get_output_embeddings()
    body = [each.weight for each in policy.causal_lm.modules() if _is_linear(each) and each is not head]
    own, tokens = completion - 1, length + GROUP * (completion - 1)
    body, heads = [each.detach().to(dtype) for each in body], [head.weight.detach().to(dtype)]
    forward = sweep(body, tokens, repeats, PROMPTS)
    top = sweep(heads, GROUP * completion, repeats, PROMPTS)
    back = [backward_sweep(body, tokens, repeats, PROMPTS), backward_sweep(heads, GROUP * completion, repeats, PROMPTS)]
    return {
        "prefill": sweep(body, PROMPTS * length, repeats, 1),
        "decode": sweep([*body, *heads], GROUP * PROMPTS, repeats, own),
        "forward": forward,
        "head": top,
        "backward": {name: back[0][name] + back[1][name] for name in ("median", "low", "high")},
    }


def _is_linear(module: Any) -> bool:
    from torch import nn

    return type(module) is nn.Linear


def sweep(weights: list[Any], rows: int, repeats: int, times: int) -> dict[str, float]:
    """``times`` times the products of [rows, inputs] with every weight; each weight comes from memory."""
    import torch

    from grpo_lightning.functional.linear import linear

    inputs = {weight.shape[1]: torch.randn(rows, weight.shape[1]).to(weight.dtype) for weight in weights}

    def products() -> None:
        for weight in weights:
            linear(inputs[weight.shape[1]], weight)

    return _spread(products, repeats, times)


def backward_sweep(weights: list[Any], rows: int, repeats: int, times: int) -> dict[str, float]:
    """The same of the products that make the gradients of inputs and weights."""
    import torch

    from grpo_lightning.functional.linear import linear

    made = {size: torch.randn(rows, size).to(weights[0].dtype) for weight in weights for size in weight.shape}

    def products() -> None:
        for weight in weights:
            slope = made[weight.shape[0]]
            linear(slope, weight.t())
            linear(slope.t(), made[weight.shape[1]].t())

    return _spread(products, repeats, times)


def _spread(call: Any, repeats: int, times: int) -> dict[str, float]:
    import time

    found = []
    call()
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append((time.perf_counter() - start) * times)
    return pairs.spread(found).as_dict()


if __name__ == "__main__":
    main()
