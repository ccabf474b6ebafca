"""Runs every kind of failure of a reward, on one and on two processes, and writes what is printed into ``docs/rewards.md``.

Run it as ``python docs/build_reward_failures.py``; it takes about ten minutes on two cores. It ends with an error if a run
hangs, if two processes print something else than one, or if a run that should go on does not.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).parent / "rewards.md"
SECONDS = 150
REWARDS = """
import asyncio, os, sys, time, torch

def good(completions):
    return [float(sum(map(ord, text)) % 7) for text in completions]

def when(groups, harm, scores):                      # only group 1 goes wrong: with two processes, that of the second
    return harm(scores) if 1 in groups else scores

def raises(completions, groups):
    return when(groups, lambda scores: {}["answer"], good(completions))

def exits(completions, groups):
    return when(groups, lambda scores: sys.exit(3), good(completions))

def hangs(completions, groups):
    return when(groups, lambda scores: time.sleep(1000), good(completions))

def short(completions, groups):
    return when(groups, lambda scores: scores[1:], good(completions))

def text(completions, groups):
    return when(groups, lambda scores: ["good"] * len(scores), good(completions))

def nan(completions, groups):
    return when(groups, lambda scores: [float("nan")] * len(scores), good(completions))

def infinity(completions, groups):
    return when(groups, lambda scores: [float("inf")] * len(scores), good(completions))

def gradient(completions, groups):
    return when(groups, lambda scores: torch.tensor(scores, requires_grad=True), good(completions))

def outside(completions, groups):
    return when(groups, lambda scores: [99.0] * len(scores), good(completions))

def dies(completions, groups):
    return when(groups, lambda scores: os._exit(7), good(completions))

def crashes(completions, groups):
    return when(groups, lambda scores: os.kill(os.getpid(), 11), good(completions))

async def awaits(completions, groups):
    if 1 in groups:
        await asyncio.sleep(1000)
    return good(completions)

async def blocks(completions, groups):
    if 1 in groups:
        time.sleep(1000)
    return good(completions)
"""
KINDS: dict[str, tuple[str, str]] = {
    # What the table says, the reward, and further fields of its entry.
    "raises": ("raises", ""),
    "raises, in a process": ("raises", "isolation: process"),
    "calls `sys.exit`": ("exits", ""),
    "hangs in a thread": ("hangs", "timeout: 1"),
    "hangs in a process": ("hangs", "timeout: 1, isolation: process"),
    "awaits what never comes": ("awaits", "timeout: 1"),
    "blocks the event loop": ("blocks", "timeout: 1"),
    "ends its process": ("dies", "isolation: process"),
    "crashes its process": ("crashes", "isolation: process"),
    "gives too few scores": ("short", ""),
    "gives a text": ("text", ""),
    "gives NaN": ("nan", ""),
    "gives infinity": ("infinity", ""),
    "gives a tensor with gradient": ("gradient", ""),
    "gives a score out of range": ("outside", "range: [0, 7]"),
}


def run(folder: Path, reward: str, fields: str, processes: int) -> tuple[int, list[str], dict[str, str]]:
    """Exit code, what was printed about the reward, and the metrics of the first rollout."""
    where = folder / f"run-{len(list(folder.iterdir()))}"
    entry = ", ".join(filter(None, [f"reward: broken.{reward}", "per_call: group", fields]))
    words = [
        "fit", "--config", str(ROOT / "tests" / "conf" / "tiny.yaml"), "--run_folder", str(where), "--model.warmup", "null",
        "--model.rewards", f"[{{{entry}}}]", "--trainer.max_steps", "1", "--data.validation", "null",
    ]  # fmt: skip
    if processes > 1:
        words += ["--trainer.devices", str(processes), "--trainer.strategy", "ddp"]
    done = subprocess.Popen(
        [sys.executable, "-m", "grpo_lightning", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}, cwd=folder, start_new_session=True,
    )  # fmt: skip
    try:
        _, error = done.communicate(timeout=SECONDS)
    finally:
        if done.poll() is None:
            os.killpg(done.pid, 9)
    path = where / "metrics.csv"
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    if done.returncode not in (0, 1):
        raise SystemExit(error)
    said = [line for line in error.splitlines() if f"reward '{reward}'" in line]
    return done.returncode, said, {key: value for key, value in (rows[0] if rows else {}).items() if value}


def both(folder: Path, reward: str, fields: str, code: int) -> tuple[list[str], dict[str, str]]:
    """What is printed and logged, where one and two processes agree."""
    one, two = (run(folder, reward, fields, processes) for processes in (1, 2))
    sys.stderr.write(f"{reward} {fields}: {one[0]} {one[1]}\n")
    for found in (one, two):
        assert found[0] == code, found
    assert one[1] == two[1], (one[1], two[1])
    kept = [{key: each for key, each in found[2].items() if _is_told(key)} for found in (one, two)]
    assert kept[0] == kept[1], kept
    return one[1], kept[0]


def _is_told(key: str) -> bool:
    return key == "reward/abstained_fraction" or bool(re.search(r"/(failures/\w+|groups_dropped|abandoned)$", key))


def block(lines: Sequence[str]) -> str:
    return "```\n" + "\n".join(lines) + "\n```\n"


def section(folder: Path) -> str:
    """The section of the page."""
    parts = ["`on_failure: stop`: exit code 1, and an error line, the same from whichever process it comes:\n"]
    parts.append(block([line for reward, fields in KINDS.values() for line in both(folder, reward, fields, 1)[0]]))
    parts.append("`on_failure: abstain`: the run goes on, prints a line a rollout for each reward, and logs:\n")
    rows = ["| the reward | printed | metrics |", "|---|---|---|"]
    for title, (reward, fields) in KINDS.items():
        said, metrics = both(folder, reward, ", ".join(filter(None, [fields, "on_failure: abstain"])), 0)
        told = ", ".join(f"`{key.replace(f'reward/{reward}/', '')} {float(each):g}`" for key, each in metrics.items())
        rows.append(f"| {title} | {'<br>'.join(f'`{line}`' for line in said)} | {told} |")
    parts.append("\n".join(rows) + "\n")
    for policy in ("drop_group", "0"):
        _, metrics = both(folder, "nan", f"on_failure: {policy}", 0)
        told = ", ".join(f"`{key} {float(each):g}`" for key, each in metrics.items())
        parts.append(f"`on_failure: {policy}`, for the reward that gives NaN: {told}.\n")
    return "\n".join(parts)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "broken.py").write_text(REWARDS)
        made = section(folder)
    before, _, rest = PAGE.read_text().partition("<!-- failures -->\n")
    after = rest.partition("<!-- end of failures -->\n")[2]
    PAGE.write_text(f"{before}<!-- failures -->\n{made}<!-- end of failures -->\n{after}")


if __name__ == "__main__":
    main()
