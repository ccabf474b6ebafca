"""Generation by servers of vLLM, as far as a server in this process can tell."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from grpo_lightning import create, preemption
from grpo_lightning.engines.base import GenerationRequest, RowEnd
from grpo_lightning.engines.vllm import VLLM
from grpo_lightning.engines.vllm_process import ServerProcess, server_command
from grpo_lightning.engines.vllm_questions import sampling_parameters
from grpo_lightning.engines.vllm_weights import merged_weights, write_adapter, write_weights
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
        assert [Path(path).stem.rpartition("-")[2] for path in server.taken] == ["5", "6"]
        assert server.version == Path(server.taken[1]).stem.removeprefix("weights-")
        assert not server.paused
        update = [call for call in server.calls if call != "/weight_info"]
        assert update[:5] == ["/pause", "/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"]
    assert [path.name for path in tmp_path.glob("weights-*")] == [Path(servers[0].taken[1]).name]


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
    assert servers[-1].taken == servers[0].taken
    assert servers[-1].version == servers[1].version == servers[0].version


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
    assert told["servers"] == [each.url for each in servers]
    assert told["weights"]["path"] == servers[0].taken[0]
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
    saved = load_file(write_weights(policy, tmp_path, "float32", "3"))
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
    assert words[:5] == ["py", "-m", "vllm.entrypoints.launchers.api_server.entry", "--model", str(tmp_path)]


def adapted(seed: int = 0) -> Any:
    """A policy whose adapters do something."""
    torch.manual_seed(seed)
    policy = tiny_policy(lora=LoRA(rank=2))
    with torch.no_grad():
        for name, each in policy.named_parameters():
            if "lora_B" in name:
                each.normal_()
    return policy


def test_an_adapter_is_written_as_peft_reads_it(tmp_path: Path) -> None:
    from peft import PeftModel

    policy, ids = adapted(), torch.tensor([[5, 6, 7]])
    written = write_adapter(policy, tmp_path, "4")
    read = PeftModel.from_pretrained(tiny_policy().causal_lm, written)
    with torch.no_grad():
        wanted, plain = policy.causal_lm(ids).logits, tiny_policy().causal_lm(ids).logits
        assert torch.allclose(read(ids).logits, wanted, atol=1e-9)
    assert not torch.allclose(plain, wanted, atol=1e-2)
    write_adapter(policy, tmp_path, "5")
    assert [path.name for path in tmp_path.iterdir()] == ["adapter-5"]


def test_of_an_adapter_servers_take_the_weights_below_it_once(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = adapted(), engine(servers, tmp_path)
    for version in (5, 6):
        made.refresh(policy, version)
        check(made.generate(policy, request()))
    policy.freeze_reference()  # what the adapter adds is below it from now on
    made.refresh(policy, 6)
    check(made.generate(policy, request()))
    for server in servers:
        assert [Path(path).stem.split("-", 2)[2] for path in server.taken] == ["below-0", "below-1"]
        assert [name.rpartition("-")[2] for name in server.loaded] == ["5", "6"]
        assert len(server.adapters) == 1
    assert {body["model"] for server in servers for body in server.asked} == set(servers[0].loaded)


def test_adapters_are_merged_where_that_is_asked_for(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = adapted(), engine(servers, tmp_path, adapters="merged")
    for version in (5, 6):
        made.refresh(policy, version)
    check(made.generate(policy, request()))
    assert [len(server.taken) for server in servers] == [2, 2]
    assert [server.loaded for server in servers] == [[], []]
    assert all(body["model"] is None for server in servers for body in server.asked)


def test_an_adapter_that_a_server_has_lost_is_loaded_again(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = adapted(), engine(servers, tmp_path)
    made.refresh(policy, 5)
    for server in servers:
        server.adapters.clear()
    check(made.generate(policy, request()))
    assert {len(server.loaded) for server in servers} == {2}


def test_a_closed_engine_asks_no_more_and_starts_nothing(servers: list[FakeVLLM], tmp_path: Path) -> None:
    policy, made = tiny_policy(), engine(servers, tmp_path, patience=600.0)
    made.refresh(policy, 5)
    pool = made._pool
    assert pool is not None
    for server in servers:
        server.stop()
    made.close()
    with pytest.raises(GRPOError, match="the run is over"):
        next(pool.answers([([1, 2], {"n": 1, "seed": 0, "max_tokens": 1, "stop_token_ids": []})]))


def process(tmp_path: Path, code: str) -> ServerProcess:
    return ServerProcess([sys.executable, "-c", code], tmp_path, 80)


def ended(made: ServerProcess) -> None:
    assert made._process is not None
    made._process.wait(30)


@pytest.mark.timeout(60)
def test_a_server_that_ends_before_it_answers_is_not_started_for_ever(tmp_path: Path) -> None:
    made = process(tmp_path, "print('no such option'); raise SystemExit(3)")
    made.revive()
    ended(made)
    with pytest.raises(GRPOError, match=r"ended with code 3 before it answered(.|\n)*no such option"):
        made.revive()


@pytest.mark.timeout(60)
def test_a_server_that_was_killed_is_started_again_without_what_it_left(tmp_path: Path) -> None:
    left = "import subprocess as s, time; print(s.Popen(['sleep', '99']).pid, flush=True); time.sleep(99)"
    made = process(tmp_path, left)
    made.revive()
    assert made._process is not None
    end = time.monotonic() + 30
    while not made.log.read_text().strip():
        assert time.monotonic() < end
        time.sleep(0.05)
    child = int(made.log.read_text())
    os.kill(made._process.pid, 9)
    ended(made)
    made.revive()
    assert made.starts == 2
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < end
        time.sleep(0.05)
    made.stop()
    made.revive()
    assert made.starts == 2
