"""Training a group: its prompt once, next to its prompt in every row.

One forward and backward pass of the sum of log-probabilities, without an optimizer, in two layouts of the same policy, next
to the ratio that counting operations predicts. The dense side runs as many rows at once as ``--dense-tokens`` allows, since
all eight rows of a long prompt would not fit into memory.

    python benchmarks/layout.py                        about 12 minutes on two cores
    python benchmarks/layout.py --quick                half a minute
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from measuring import memory, models, operations, options, pairs, results
from measuring.workload import token_prompts

GROUP, COMPLETION = 8, 64
LENGTHS = (64, 128, 256, 512, 1024, 2048)


def arguments() -> argparse.Namespace:
    parser = options.parser(__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=None, help="tokens of the prompt")
    parser.add_argument(
        "--layout", default="auto", help="layout that is compared with padded (default: the policy's own)"
    )
    parser.add_argument("--precision", choices=["32", "bf16-mixed"], default="32")
    parser.add_argument("--dense-tokens", type=int, default=4608, help="tokens of one pass of the dense side")
    return options.settled(parser.parse_args())


def main() -> None:
    given = arguments()
    lengths = given.lengths or ((16, 48) if given.quick else LENGTHS)
    folder = models.exported(given.model, given.scratch)
    policies = {name: models.loaded(folder, layout=name) for name in dict.fromkeys((given.layout, "padded"))}
    sides = {"shared": policies[given.layout], "dense": policies["padded"]}
    cases = [case(given, sides, length) for length in lengths]
    settings = {"group": GROUP, "completion": completion(given), "lengths": list(lengths),
                "precision": given.precision, "layout": sides["shared"].layout,
                "dense_tokens": given.dense_tokens}  # fmt: skip
    results.finish(given, "layout", settings, cases)


def completion(given: argparse.Namespace) -> int:
    return 8 if given.quick else COMPLETION


def case(given: argparse.Namespace, sides: dict[str, Any], length: int) -> dict[str, Any]:
    """One row of the table."""
    print(f"prompt of {length} tokens")
    at_once = {"shared": GROUP, "dense": min(GROUP, max(1, given.dense_tokens // (length + completion(given))))}
    measured = pairs.alternate(
        {name: passes(given, policy, length, at_once[name]) for name, policy in sides.items()},
        given.repeats,
        warm_up=length <= LENGTHS[0] or given.quick,
    )
    shape = operations.Shape.of(sides["dense"].config)
    counted = {
        "dense": operations.train_dense(shape, GROUP, length, completion(given)),
        "shared": operations.train_shared(shape, GROUP, length, completion(given)),
    }
    return {
        "prompt_tokens": length,
        "dense_rows_at_once": at_once["dense"],
        "sides": {name: pairs.summary(each) for name, each in measured.items()},
        "speedup": pairs.ratio(measured["dense"], measured["shared"]),
        "counted": {
            part: getattr(counted["dense"], part) / getattr(counted["shared"], part)
            for part in ("body", "attention", "head", "total")
        },
    }


def passes(given: argparse.Namespace, policy: Any, length: int, at_once: int) -> pairs.Measure:
    """Measures a forward and backward pass over a group, ``at_once`` rows at a time."""
    import torch

    vocabulary = policy.config.get_text_config().vocab_size
    mixed = given.precision == "bf16-mixed"
    above: list[int] = []

    def measure(round_: int) -> dict[str, Any]:
        whole = models.rows(token_prompts(vocabulary, length, 1, seed=round_), GROUP, completion(given))
        parts = [whole.select(part) for part in torch.arange(GROUP).split(at_once)]
        for parameter in policy.parameters():
            parameter.grad = None
        if not above:  # memory is that of the first pass; giving freed memory back before each would cost them all time
            memory.release()
            memory.restart()
        held, start = memory.resident(), time.perf_counter()
        for rows in parts:
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                total = policy(rows)["log_prob"].sum()
            total.backward()
        seconds = time.perf_counter() - start
        if not above:
            above.append(memory.peak() - held)
        return {"seconds": seconds, "peak_bytes_above": above[0]}

    return measure


if __name__ == "__main__":
    main()
