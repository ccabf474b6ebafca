"""What the command ``plan`` says that a run needs, against what real runs of the same configuration need.

Models of random weights in the Llama architecture, two updates each, through ``fit`` on the CPU, every run in processes of its
own. Measured is the peak of resident memory while it trains, less what the process held when all was imported and the data
were read, before it had weights. Of several processes the one that needs most counts. Every run is made twice: with freed
memory given back to the system, so that the peak is what was needed at once, and as ``fit`` runs on the CPU by default,
keeping what was freed for the next tensors, whether or not they fit into it.

    python benchmarks/plan.py                          about half an hour on two cores, up to 8 GiB
    python benchmarks/plan.py --quick                  two minutes
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import machine, options, pairs, results

MODELS: dict[str, dict[str, int]] = {
    "tiny": {"vocab_size": 200, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2},
    "110M": {"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 14,
             "num_attention_heads": 12, "num_key_value_heads": 4},
    "160M": {"vocab_size": 49152, "hidden_size": 896, "intermediate_size": 2432, "num_hidden_layers": 14,
             "num_attention_heads": 14, "num_key_value_heads": 2},
    "250M": {"vocab_size": 64000, "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 16,
             "num_attention_heads": 16, "num_key_value_heads": 4},
}  # fmt: skip
"""Configurations of Llama; all tie head and embedding."""
CASES: tuple[dict[str, Any], ...] = (
    {"model": "110M", "group": 8, "prompts": 2, "prompt": 64, "completion": 48, "budget": 512},
    {"model": "160M", "group": 8, "prompts": 4, "prompt": 96, "completion": 32, "budget": 1024},
    {"model": "250M", "group": 4, "prompts": 2, "prompt": 128, "completion": 64, "budget": 1024},
    {"model": "110M", "group": 8, "prompts": 2, "prompt": 64, "completion": 48, "budget": 1024,
     "words": ["--trainer.precision=bf16-mixed"]},
    {"model": "160M", "group": 8, "prompts": 4, "prompt": 96, "completion": 48, "budget": 1024,
     "words": ["--model.policy.lora.rank=16"]},
    {"model": "160M", "group": 8, "prompts": 8, "prompt": 96, "completion": 48, "budget": 4096,
     "words": ["--model.policy.activation_checkpointing=true"]},
    {"model": "110M", "group": 8, "prompts": 4, "prompt": 64, "completion": 32, "budget": 1024, "processes": 2,
     "words": ["--trainer.strategy=ddp"]},
    {"model": "160M", "group": 8, "prompts": 4, "prompt": 64, "completion": 32, "budget": 1024, "processes": 2,
     "words": ["--trainer.strategy=fsdp2"]},
    {"model": "160M", "group": 8, "prompts": 4, "prompt": 64, "completion": 32, "budget": 1024, "processes": 2,
     "words": ["--trainer.strategy=fsdp2", "--trainer.precision=bf16-mixed"]},
)  # fmt: skip
QUICK: tuple[dict[str, Any], ...] = (
    {"model": "tiny", "group": 4, "prompts": 2, "prompt": 16, "completion": 8, "budget": 256},
)
MEMORY = {"above_bytes": {"MALLOC_MMAP_THRESHOLD_": str(2**20)}, "kept_bytes": {}}
"""What is measured, and the environment that makes it so: large tensors mapped by themselves, or the default of ``fit``."""
TIMEOUT = 1200


def arguments() -> argparse.Namespace:
    parser = options.parser(__doc__, repeats=1)
    parser.add_argument("--case", type=int, action="append", help="only this one, from 0 (may be repeated)")
    return options.settled(parser.parse_args())


def main() -> None:
    given = arguments()
    cases = QUICK if given.quick else CASES
    measured = []
    for index in given.case or range(len(cases)):
        measured.append(case(given, cases[index]))
    chosen = [cases[index] for index in given.case or range(len(cases))]
    results.finish(given, "plan", {"cases": chosen}, measured)


def case(given: argparse.Namespace, size: dict[str, Any]) -> dict[str, Any]:
    """One run, planned and measured."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = model(given.scratch, size["model"])
        words = configuration(Path(scratch) / "run.yaml", folder, size)
        planned = plan(words, size)
        runs = [
            {name: measure(given, words, Path(scratch) / f"{name}-{index}", more) for name, more in MEMORY.items()}
            for index in range(given.repeats)
        ]
    found = {"size": size, "planned": planned, **pairs.summary(runs)}
    told = ", ".join(f"{name} {found[name]['median'] / 2**30:.2f}" for name in MEMORY)
    print(f"{size}: planned {planned['peak_bytes'] / 2**30:.2f}, {told} GiB", flush=True)
    return found


def model(scratch: Path, name: str) -> Path:
    """The folder of a model of random weights, made in a process of its own on the first call."""
    folder = scratch / "models" / f"plan-{name}"
    if not (folder / "tokenizer.json").exists():
        made = (
            "import sys, json; from transformers import AutoModelForCausalLM, LlamaConfig\n"
            "from grpo_lightning.policies.embedded import character_tokenizer\n"
            "config = LlamaConfig(**json.loads(sys.argv[2]), tie_word_embeddings=True, pad_token_id=0, eos_token_id=1, "
            "bos_token_id=None)\n"
            "AutoModelForCausalLM.from_config(config).save_pretrained(sys.argv[1])\n"
            "character_tokenizer().save_pretrained(sys.argv[1])\n"
        )
        subprocess.run([sys.executable, "-c", made, str(folder), json.dumps(MODELS[name])], check=True)
    return folder


def configuration(path: Path, folder: Path, size: dict[str, Any]) -> list[str]:
    """The words of ``fit`` and of ``plan``; the configuration is written to ``path``."""
    settings: dict[str, Any] = {
        "trainer": {"max_steps": 2, "accelerator": "cpu", "devices": size.get("processes", 1)},
        "model": {
            "policy": {"name": "causal_lm", "model": str(folder)},
            "rewards": [{"name": "function", "function": "measuring.training.alternating"}],
            "group_size": size["group"],
            "prompts_per_rollout": size["prompts"],
            "micro_batch_tokens": size["budget"],
            "generation": {"max_new_tokens": size["completion"]},
        },
        "data": {"train": {"name": "records", "rows": [{"prompt": "x" * size["prompt"]}] * 32}},
        "save_every": 1000,
    }
    path.write_text(json.dumps(settings))
    return ["--config", str(path), *size.get("words", [])]


def plan(words: list[str], size: dict[str, Any]) -> dict[str, Any]:
    """What the command says, as numbers."""
    from grpo_lightning.cli.arguments import parse_arguments
    from grpo_lightning.cli.plan import planned

    found = planned(parse_arguments(words), None)[0]
    return {
        "parameters": found.counted.sizes.whole.parameters,
        "trained": found.counted.sizes.whole.trained,
        "phase": found.peak_phase,
        "peak_bytes": found.peak_bytes,
        "parts": dict(found.phases[found.peak_phase]),
    }


def measure(given: argparse.Namespace, words: list[str], scratch: Path, more: dict[str, str]) -> int:
    """Most bytes that a process of a run held above what it held without a model; ``more`` is added to its environment."""
    scratch.mkdir()
    script = str(Path(__file__).parent / "workers" / "plan_fit.py")
    environment = {name: each for name, each in os.environ.items() if not name.startswith("MALLOC_")} | {
        **machine.threads_of(given.threads),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
        "HF_HUB_OFFLINE": "1",
        "THP_MEM_ALLOC_ENABLE": "1",
        **more,
    }
    command = [sys.executable, script, str(scratch), *words, f"--run_folder={scratch / 'run'}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"a run ended with {done.returncode}: {done.stderr[-3000:]}")
    facts = [json.loads(path.read_text()) for path in scratch.glob("*.json")]
    return max(each["peak_bytes"] - each["idle_bytes"] for each in facts)


if __name__ == "__main__":
    main()
