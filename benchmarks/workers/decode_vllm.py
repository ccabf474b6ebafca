"""Completions by vLLM on the CPU, one batch for each order: the offline ``LLM`` class, in this process, bf16.

It compiles the model when it starts, which takes a minute and makes it a quarter faster. Its threads are not
bound: bound ones would leave a core to a server, which there is none of.
"""

from __future__ import annotations

import argparse
import os


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--longest", type=int, required=True, help="tokens of a prompt and its completion")
    parser.add_argument("--rows", type=int, required=True, help="rows at once, at most")
    given = parser.parse_args()
    os.environ |= {
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    from measuring.protocol import Channel

    channel = Channel()
    import torch
    import vllm
    from vllm import LLM, SamplingParams

    engine = LLM(
        model=given.model,
        dtype="bfloat16",
        max_model_len=given.longest,
        max_num_seqs=given.rows,
        disable_log_stats=True,
    )
    channel.ready(versions={"vllm": vllm.__version__, "torch": torch.__version__}, threads=torch.get_num_threads())
    while True:
        order = channel.order()
        inputs = [{"prompt_token_ids": ids} for ids in order["prompts"] for _ in range(order["group"])]
        each = [SamplingParams(temperature=1.0, max_tokens=limit, ignore_eos=True) for limit in order["limits"]]
        outputs = engine.generate(inputs, each, use_tqdm=False)
        channel.done(generated_tokens=sum(len(output.outputs[0].token_ids) for output in outputs))


if __name__ == "__main__":
    main()
