"""Memory of a pass against the size of the vocabulary: it should not grow with it.

A model of one layer, hidden size 576, 2048 steps, fp32; a fresh process for every measurement. What is shown is the peak of a
forward and backward pass above weights and their gradient.

    python benchmarks/head_memory.py                   about 3 minutes on two cores
    python benchmarks/head_memory.py --quick           half a minute
"""

from __future__ import annotations

import argparse
from typing import Any

from measuring import options, pairs, peers, results
from measuring.protocol import Worker

VOCABULARIES = (50_000, 150_000, 250_000)
ROWS, STEPS = 8, 256


def arguments() -> argparse.Namespace:
    return options.settled(options.parser(__doc__).parse_args())


def main() -> None:
    given = arguments()
    vocabularies = (2_000, 10_000) if given.quick else VOCABULARIES
    steps = 16 if given.quick else STEPS
    measured = pairs.alternate(
        {str(vocabulary): fresh(given, vocabulary, steps) for vocabulary in vocabularies}, given.repeats, warm_up=False
    )
    cases: list[dict[str, Any]] = [
        {
            "vocabulary": vocabulary,
            "logits_bytes": ROWS * steps * vocabulary * 4,
            **pairs.summary(measured[str(vocabulary)]),
        }
        for vocabulary in vocabularies
    ]
    results.finish(given, "head_memory", {"rows": ROWS, "steps": steps, "vocabularies": list(vocabularies)}, cases)


def fresh(given: argparse.Namespace, vocabulary: int, steps: int) -> pairs.Measure:
    """Measures in a process of its own, since memory that was used once stays with a process."""
    call = ["--vocabulary", str(vocabulary), "--rows", str(ROWS), "--steps", str(steps)]

    def measure(_: int) -> dict[str, Any]:
        with Worker(peers.ours(), "head_memory.py", call, threads=given.threads) as worker:
            answer = worker.order()
        above = answer["peak_bytes"] - answer["held_bytes"] - answer["gradient_bytes"]
        return answer | {"above_bytes": max(0, above)}

    return measure


if __name__ == "__main__":
    main()
