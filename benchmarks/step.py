"""A whole GRPO step, next to TRL's.

Both sides hold the same weights, get prompts of the same length, sample the same number of tokens (nothing ends a row before
its limit), score them with the same numbers and step with the same optimizer. Each is a process of its own that waits while
the other works; a pair is one step of each, and who begins changes from pair to pair.

    python benchmarks/step.py                          about 35 minutes on two cores
    python benchmarks/step.py --quick                  a minute
    python benchmarks/step.py --peer-env PATH          reuse an environment that has TRL
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from measuring import models, options, pairs, peers, results
from measuring.protocol import Worker

GROUP, PROMPTS_PER_STEP, LEARNING_RATE, PROMPT_POOL = 8, 2, 1e-6, 32
LENGTHS = {"short": 44, "long": 512}
PRECISIONS = ("32", "bf16-mixed")
COMPLETION = 64
TRL_ROWS = {("short", "32"): 16, ("short", "bf16-mixed"): 16, ("long", "32"): 8, ("long", "bf16-mixed"): 8}
"""Rows of one of TRL's passes: the fastest of 2, 4, 8 and 16 on two cores."""
KEPT_LENGTHS = ("short",)
"""Prompts with which TRL is also measured with the allocator's settings that our command line makes: ``trl_kept``."""


def arguments() -> argparse.Namespace:
    parser = options.parser(__doc__)
    parser.add_argument("--against", choices=["trl", "nobody"], default="trl")
    parser.add_argument(
        "--peer-env", type=Path, default=None, help="environment that has the peer, instead of a new one"
    )
    parser.add_argument("--length", choices=[*LENGTHS], action="append", help="only these prompts (may be repeated)")
    parser.add_argument("--precision", choices=PRECISIONS, action="append", help="only these precisions")
    parser.add_argument("--trl-rows", type=int, default=None, help="rows of one of TRL's passes")
    return options.settled(parser.parse_args())


def main() -> None:
    given = arguments()
    folder = models.exported(given.model, given.scratch)
    peer = None
    if given.against == "trl":
        peer = peers.interpreter(peers.TRL, given.peer_env, given.scratch / "environments")
    cases = [
        case(given, folder, peer, length, precision)
        for length in given.length or LENGTHS
        for precision in given.precision or PRECISIONS
    ]
    settings = {"group": GROUP, "prompts": PROMPTS_PER_STEP, "completion": completion(given), "against": given.against,
                "lengths": list(given.length or LENGTHS), "precisions": list(given.precision or PRECISIONS)}  # fmt: skip
    results.finish(given, "step", settings, cases)


def completion(given: argparse.Namespace) -> int:
    return 6 if given.quick else COMPLETION


def case(given: argparse.Namespace, folder: Path, peer: Path | None, length: str, precision: str) -> dict[str, Any]:
    """One row of the table."""
    tokens = {"short": 12, "long": 40}[length] if given.quick else LENGTHS[length]
    print(f"{length} prompts ({tokens} tokens), {precision}")
    shared = ["--model", str(folder), "--prompts", str(written(given, folder, tokens)), "--group", str(GROUP),
              "--prompts-per-step", str(PROMPTS_PER_STEP), "--completion", str(completion(given)),
              "--precision", precision, "--learning-rate", str(LEARNING_RATE)]  # fmt: skip
    budget = tokens + GROUP * completion(given)  # one group is one micro-batch
    workers = {"ours": Worker(peers.ours(), "step_ours.py", [*shared, "--micro-batch-tokens", str(budget)],
                              threads=given.threads)}  # fmt: skip
    if peer is not None:
        rows = given.trl_rows or TRL_ROWS[length, precision]
        sides = {"trl": False} | ({"trl_kept": True} if length in KEPT_LENGTHS else {})
        for name, kept in sides.items():
            workers[name] = Worker(peer, "step_trl.py", [*shared, "--rows", str(rows)], threads=given.threads,
                                   kept_memory=kept)  # fmt: skip
    try:
        measured = pairs.alternate({name: one_step(worker) for name, worker in workers.items()}, given.repeats)
    finally:
        for worker in workers.values():
            worker.close()
    return row(given, length, tokens, precision, workers, measured)


def one_step(worker: Worker) -> pairs.Measure:
    """Measures a step of a side."""
    return lambda _: worker.order()


def written(given: argparse.Namespace, folder: Path, tokens: int) -> Path:
    """A file with prompts of ``tokens`` tokens each."""
    from measuring import training

    path: Path = given.scratch / "prompts" / f"{folder.name}_{tokens}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(training.texts_for(folder, tokens, PROMPT_POOL)))
    return path


def row(
    given: argparse.Namespace,
    length: str,
    tokens: int,
    precision: str,
    workers: dict[str, Worker],
    measured: dict[str, list[dict[str, Any]]],
) -> dict[str, Any]:
    """What a case came to; every side must have written every token."""
    wanted = GROUP * PROMPTS_PER_STEP * completion(given)
    for name, each in measured.items():
        wrong = [one["generated_tokens"] for one in each if one["generated_tokens"] != wanted]
        if wrong:
            raise RuntimeError(
                f"{name} wrote {wrong} tokens where {wanted} were asked for: the steps are not comparable"
            )
    case: dict[str, Any] = {
        "length": length,
        "prompt_tokens": tokens,
        "precision": precision,
        "sides": {name: workers[name].facts | pairs.summary(each) for name, each in measured.items()},
    }
    if "trl" in measured:
        case["speedup"] = pairs.ratio(measured["trl"], measured["ours"])
        if "trl_kept" in measured:
            case["speedup_kept"] = pairs.ratio(measured["trl_kept"], measured["ours"])
        case["memory_share"] = pairs.ratio(measured["ours"], measured["trl"], "peak_bytes")
    return case


if __name__ == "__main__":
    main()
