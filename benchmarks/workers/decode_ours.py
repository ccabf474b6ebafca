"""Completions by this library's decode loop, one batch for each order."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from measuring import models
from measuring.protocol import Channel

from grpo_lightning import __version__, create


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    given = parser.parse_args()
    channel = Channel()
    policy = models.loaded(given.model, dtype="bfloat16")
    engine = create("engine", "decode_loop")
    channel.ready(versions={"grpo_lightning": __version__, "torch": torch.__version__})
    while True:
        order = channel.order()
        request = models.request(order["prompts"], order["group"], order["limits"], order["round"])
        written = engine.generate(policy, request).tokens.values.numel()
        channel.done(generated_tokens=written)


if __name__ == "__main__":
    main()
