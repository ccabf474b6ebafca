"""Rewards that do to one row of a rollout whatever a reward should not do; worker processes import them from here."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from helpers.tiny_run import spread

VICTIM = ("ab", 1)
"""Prompt and member of the row that goes wrong."""


def hit(prompts: Sequence[Any], members: Sequence[int]) -> bool:
    """Whether the victim is among the rows."""
    return VICTIM in zip(prompts, members, strict=True)


def hostile(harm: Callable[[list[float]], Any]) -> Callable[..., Any]:
    """A reward that gives what ``harm`` makes of the scores, where the victim is among the rows."""

    @functools.wraps(harm)
    def score(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
        scores = spread(completions)
        return harm(scores) if hit(prompts, members) else scores

    del score.__wrapped__  # type: ignore[attr-defined]  # its signature is what the framework reads
    return score


@hostile
def raises(scores: list[float]) -> Any:
    raise KeyError("by hand")


@hostile
def leaves(scores: list[float]) -> Any:
    sys.exit(3)


@hostile
def hangs(scores: list[float]) -> Any:
    time.sleep(200)


@hostile
def short(scores: list[float]) -> Any:
    return scores[1:]


@hostile
def text(scores: list[float]) -> Any:
    return ["good"] * len(scores)


@hostile
def nan(scores: list[float]) -> Any:
    return [float("nan")] * len(scores)


@hostile
def infinity(scores: list[float]) -> Any:
    return [float("inf")] * len(scores)


@hostile
def gradient(scores: list[float]) -> Any:
    return torch.tensor(scores, requires_grad=True)


@hostile
def outside(scores: list[float]) -> Any:
    return [1.5] * len(scores)


@hostile
def dies(scores: list[float]) -> Any:
    os._exit(7)


async def hangs_awaiting(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
    """Awaits what never comes."""
    if hit(prompts, members):
        await asyncio.sleep(200)
    return spread(completions)


async def blocks_the_loop(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
    """Keeps the event loop from going on."""
    if hit(prompts, members):
        time.sleep(4)
    return spread(completions)


async def swallows_cancellation(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
    """Does not let itself be cancelled."""
    until = time.monotonic() + 4
    while hit(prompts, members) and time.monotonic() < until:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return spread(completions)


def abstaining(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
    """``None`` for the victim, without any harm."""
    rows = zip(spread(completions), prompts, members, strict=True)
    return [None if (prompt, member) == VICTIM else score for score, prompt, member in rows]


def numbering(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
    """-0.5 for the victim, without any harm."""
    return [-0.5 if score is None else score for score in abstaining(completions, prompts, members)]


def silencing(completions: Sequence[str], prompts: Sequence[Any], members: Sequence[int]) -> Any:
    """``None`` for the victim's whole group, without any harm."""
    return [None if prompt == VICTIM[0] else score for score, prompt in zip(spread(completions), prompts, strict=True)]


def forever(completions: Sequence[str]) -> list[float]:
    """Never ends, and tells its processes in the file that ``FOREVER`` names."""
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    with open(os.environ["FOREVER"] + ".new", "w") as file:
        file.write(f"{os.getpid()} {os.getppid()} {child.pid}")
    os.replace(os.environ["FOREVER"] + ".new", os.environ["FOREVER"])
    time.sleep(300)
    return [1.0] * len(completions)
