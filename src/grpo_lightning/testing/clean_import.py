"""What importing a module brings along, seen from a fresh process."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache

_NAMES = """
accelerate anthropic bitsandbytes cv2 datasets deepspeed diffusers faiss gradio gym gymnasium jax keras langchain
lightning litellm matplotlib mlflow nltk openai pandas peft PIL plotly polars pyarrow pytorch_lightning ray
reasoning_gym sacrebleu scipy seaborn sentence_transformers sglang sklearn spacy streamlit sympy tensorboard
tensorflow timm torchaudio torchmetrics torchvision transformers triton trl unsloth verl vllm wandb
"""
HEAVY = frozenset(_NAMES.split())
"""Packages that take long to import, or much memory."""
_SECONDS = 60
_SERVER = f"""
import importlib, json, os, signal, sys
sys.path[:] = json.loads(sys.argv[1])
for name in sys.argv[2].split():
    importlib.import_module(name)

def imported(request):
    sys.path[:] = request["path"]
    before = set(sys.modules)
    try:
        importlib.import_module(request["module"])
    except BaseException as error:
        return f"{{type(error).__name__}}: {{error}}"
    return sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})

for line in sys.stdin:
    read, write = os.pipe()
    if os.fork() == 0:
        signal.alarm({_SECONDS})
        os.dup2(2, 1)
        os.write(write, json.dumps(imported(json.loads(line))).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.wait()
    print(answer.decode() or json.dumps("it took more than {_SECONDS} seconds, or ended the process"), flush=True)
"""


def heavy_imports(module: str, after: tuple[str, ...]) -> list[str] | str:
    """The packages of :data:`HEAVY` that importing ``module`` brings along.

    One process that has imported ``after`` waits for questions and answers each in a fork of itself, so that only the first
    question costs the time of those imports.

    Args:
        module: Module to import.
        after: Modules that are there before, whose own imports do not count.

    Returns:
        Their names, ascending; a text if the module cannot be imported, with the reason.
    """
    server = _server(after)
    if server.stdin is None or server.stdout is None or server.poll() is not None:
        return f"the process that had to import {' and '.join(after)} first has ended"
    server.stdin.write(json.dumps({"module": module, "path": sys.path}) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    found = json.loads(answer) if answer else "the process that imports it has ended"
    return found if isinstance(found, str) else sorted(HEAVY.intersection(found))


@cache
def _server(after: tuple[str, ...]) -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, json.dumps(sys.path), " ".join(after)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    atexit.register(server.kill)
    return server
