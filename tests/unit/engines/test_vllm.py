"""Generation by servers of vLLM, as far as a server in this process can tell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from grpo_lightning import create, preemption
from grpo_lightning.engines.base import GenerationRequest, RowEnd
from grpo_lightning.engines.vllm import VLLM, sampling_parameters
from grpo_lightning.engines.vllm_process import server_command
from grpo_lightning.engines.vllm_weights import merged_weights, write_weights
from grpo_lightning.errors import ConfigError, GRPOError, PreemptedError
from grpo_lightning.functional.seeding import address_hash
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.types import FinishReason, Ragged
from helpers.fake_vllm import FakeVLLM, log_prob, token
from helpers.tiny_policy import tiny_policy


@pytest.fixture
def servers() -> Iterator[list[FakeVLLM]]:
    started = [FakeVLLM(), FakeVLLM()]
    yield started
    for server in started:
        with contextlib.suppress(OSError):
            server.stop()


def request(**changed: Any) -> GenerationRequest:
    """Two groups of three rows; the last row of the second may write less."""
    address = [[4, group, 0, member, 0] for group in range(2) for member in range(3)]
    settings: dict[str, Any] = {
        "contexts": Ragged.from_list([[5, 6], [7, 8, 9]], torch.int64),
        "context_Q": torch.tensor([0, 0, 0, 1, 1, 1]),
        "address_QA": torch.tensor(address),
        "sampler": create("sampler", "temperature", temperature=0.7),
        "seed": 3,
        "stream": "train",
        "limit_Q": torch.tensor([6, 6, 6, 6, 6, 2]),
        "stop_ids": frozenset({9}),
        "version": 5,
    }
    return GenerationRequest(**settings | changed)


def seed_of(row: int) -> int:
    return int(address_hash(3, "train", request().address_QA[row : row + 1])[0] >> 2)


def expected(row: int) -> tuple[list[int], list[float]]:
    """What the server writes for a row, from its own rule."""
    first, member, limit = [(0, 0, 6), (0, 1, 6), (0, 2, 6), (3, 0, 6), (3, 1, 6), (5, 0, 2)][row]
    seed, tokens = seed_of(first), []
    while len(tokens) < limit and not (tokens and tokens[-1] == 9):
        tokens.append(token(seed, member, len(tokens)))
    return tokens, [log_prob(seed, member, step) for step in range(len(tokens))]


def engine(servers: list[FakeVLLM], folder: Path, **changed: Any) -> VLLM:
    settings: dict[str, Any] = {"timeout": 1.0, "patience": 8.0} | changed
    return VLLM(servers=[server.url for server in servers], folder=str(folder), **settings)


def check(completions: Any) -> None:
    for row in range(6):
        tokens, log_probs = expected(row)
        assert completions.tokens.tolist()[row] == tokens
        assert completions.log_probs.tolist()[row] == log_probs
        assert int(completions.finish_Q[row]) == (FinishReason.STOP if tokens[-1] == 9 else FinishReason.LENGTH)


def test_rows_of_one_context_and_limit_are_one_question(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path)
    made.refresh(policy, 5)
    ended: list[RowEnd] = []
    completions = made.generate(policy, request(ended=ended.append))
    check(completions)
    assert completions.support is None
    assert sorted(end.row for end in ended) == list(range(6))
    assert all(end.tokens == expected(end.row)[0] for end in ended)
    asked = sorted((body for server in servers for body in server.asked), key=lambda body: body["sampling_params"]["n"])
    assert [(body["token_ids"], body["sampling_params"]["n"], body["sampling_params"]["max_tokens"]) for body in asked] == [
        ([7, 8, 9], 1, 2), ([7, 8, 9], 2, 6), ([5, 6], 3, 6)]  # fmt: skip
    assert {body["sampling_params"]["temperature"] for body in asked} == {0.7}
    assert asked[2]["sampling_params"]["stop_token_ids"] == [9]
    made.close()


def test_servers_take_weights_once_a_version(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path)
    for version in (5, 5, 6):
        made.refresh(policy, version)
    for server in servers:
        assert [Path(path).name for path in server.taken] == ["weights-5.safetensors", "weights-6.safetensors"]
        assert server.version == "6"
        assert not server.paused
        update = [call for call in server.calls if call != "/weight_info"]
        assert update[:5] == ["/pause", "/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"]
    assert [path.name for path in tmp_path.iterdir()] == ["weights-6.safetensors"]


@pytest.mark.parametrize("fault", ["drop", "half", "short", "abort", "stale", "500", "slow"])
def test_a_fault_is_asked_again(fault: str, servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path)
    made.refresh(policy, 5)
    for server in servers:
        server.faults.append(fault)
    check(made.generate(policy, request()))
    assert made._pool is not None
    assert 1 <= made._pool.retries <= 2


def test_a_dead_server_is_left_and_one_that_comes_back_gets_the_weights(
    servers: list[FakeVLLM], tmp_path: Path
) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path)
    made.refresh(policy, 5)
    port = servers[0].port
    servers[0].stop()
    check(made.generate(policy, request()))
    servers[1].stop()
    servers.append(FakeVLLM(port))
    check(made.generate(policy, request()))
    assert servers[-1].taken == [str(tmp_path / "weights-5.safetensors")]
    assert servers[-1].version == "5"


def test_patience_has_an_end(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path, patience=1.0)
    made.refresh(policy, 5)
    for server in servers:
        server.stop()
    with pytest.raises(GRPOError, match=r"no server has answered for 1 s; the last fault was http://127.0.0.1"):
        made.generate(policy, request())
    with pytest.raises(GRPOError, match="no server has answered"):
        engine(servers, tmp_path, patience=0.2).refresh(policy, 5)


def test_a_run_that_is_asked_to_stop_does_not_wait(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path)
    made.refresh(policy, 5)
    preemption.request(15)
    try:
        with pytest.raises(PreemptedError):
            made.generate(policy, request())
    finally:
        preemption.clear()


def test_what_joins_asks_the_same_servers(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, first, other = tiny_policy(), engine(servers, tmp_path), VLLM(servers=["http://127.0.0.1:9"])
    told = first.refresh(policy, 5)
    assert told == {
        "servers": [each.url for each in servers],
        "path": str(tmp_path / "weights-5.safetensors"),
        "version": 5,
    }
    other.join(told)
    check(other.generate(policy, request()))
    assert [len(server.taken) for server in servers] == [1, 1]


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p"])
def test_a_sampler_that_leaves_tokens_out_is_refused(name: str) -> None:
    arguments = {"top_k": {"k": 3}, "top_p": {"p": 0.9}, "min_p": {"min_p": 0.1}}[name]
    with pytest.raises(ConfigError, match="vLLM does not tell which"):
        sampling_parameters(request(sampler=create("sampler", name, **arguments)))


def test_greedy_is_temperature_zero() -> None:
    assert sampling_parameters(request(sampler=create("sampler", "greedy")))["temperature"] == 0.0


def test_the_file_has_every_weight_once_adapters_merged(tmp_path: Path) -> None:
    torch.manual_seed(0)
    policy = tiny_policy(lora=LoRA(rank=2))
    with torch.no_grad():
        for name, each in policy.named_parameters():
            if "lora_B" in name:
                each.normal_()
    saved = load_file(write_weights(policy, tmp_path, "float32", 3))
    state = policy.causal_lm.state_dict()
    plain = tiny_policy().causal_lm
    assert saved.keys() == {name for name, _ in plain.named_parameters()}
    name = "model.layers.0.self_attn.q_proj"
    lora_a, lora_b = (state[f"{name}.lora_{part}.default.weight"] for part in "AB")
    adapter = policy.model.peft_config["default"]
    scale = adapter.lora_alpha / adapter.r
    wanted = state[f"{name}.base_layer.weight"] + scale * (lora_b @ lora_a)
    assert torch.allclose(saved[f"{name}.weight"], wanted.float(), atol=1e-6)
    assert not torch.allclose(saved[f"{name}.weight"], state[f"{name}.base_layer.weight"].float(), atol=1e-2)
    assert len(dict(merged_weights(policy))) == len(saved)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({}, "servers"),
        ({"servers": ["http://x"], "python": "/usr/bin/python3"}, "servers"),
        ({"python": "/nowhere/python"}, "python"),
        ({"servers": ["http://x"], "dtype": "int8"}, "dtype"),
        ({"servers": ["http://x"], "timeout": 0}, "timeout"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError) as error:
        VLLM(**settings)
    assert error.value.setting == setting


def test_arguments_of_a_server(tmp_path: Path) -> None:
    words = server_command("py", tmp_path, 80, {"max_model_len": 64, "enforce_eager": True})
    assert words[-3:] == ["--max-model-len", "64", "--enforce-eager"]
    assert words[:5] == ["py", "-m", "vllm.entrypoints.cli.main", "serve", str(tmp_path)]
