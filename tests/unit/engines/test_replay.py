"""Recordings and their replay, in one file since each is defined by the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grpo_lightning.engines.base import Completions
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.recording import read_recording, write_recording
from grpo_lightning.engines.replay import Replay
from grpo_lightning.errors import ConfigError, GRPOError
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_k import TopK
from grpo_lightning.samplers.top_p import TopP
from helpers.generation import equal, make_request, pick
from helpers.tiny_policy import EOS, tiny_policy

STOPS = [EOS, *range(60, 70)]


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy(dtype="float32")


@pytest.mark.parametrize("sampler", [Temperature(temperature=0.7), TopK(k=3), TopP(p=0.8)], ids=lambda s: str(s.name))
def test_replay_reproduces_a_recording_bit_for_bit(policy: CausalLM, sampler: TopK, tmp_path: Path) -> None:
    request = make_request(sampler, stop_ids=STOPS)
    recorded = DecodeLoop().generate(policy, request)
    write_recording(tmp_path, request, recorded, version=3)
    again = Replay(path=str(tmp_path)).generate(policy, request)
    assert equal(again, recorded)
    assert (again.support is None) == (recorded.support is None)
    assert again.version == 3


def test_rows_are_found_by_address_in_any_order_and_company(policy: CausalLM, tmp_path: Path) -> None:
    request = make_request(TopP(p=0.8), stop_ids=STOPS)
    recorded = DecodeLoop().generate(policy, request)
    for rows in (range(0, 7), range(7, 20)):
        part = pick(request, rows)
        write_recording(tmp_path, part, DecodeLoop().generate(policy, part), version=0)
    assert len(list(tmp_path.glob("*.pt"))) == 2
    order = [19, 0, 7, 3]
    again = Replay(path=str(tmp_path)).generate(policy, pick(request, order))
    assert again.tokens.tolist() == [recorded.tokens.tolist()[row] for row in order]


def test_engines_own_version_is_kept(policy: CausalLM, tmp_path: Path) -> None:
    request = make_request(Temperature(), limit=2)
    made = DecodeLoop().generate(policy, request)
    stale = Completions(made.tokens, made.log_probs, made.finish_Q, made.support, version=4)
    write_recording(tmp_path, request, stale, version=9)
    assert Replay(path=str(tmp_path)).generate(policy, request).version == 4


def test_one_address_after_different_updates(policy: CausalLM, tmp_path: Path) -> None:
    """A validation set is completed again and again at the same addresses: no recording overwrites another."""
    first = replace(make_request(TopK(k=3), stream="held_out", limit=4), version=2)
    second = replace(first, version=6)
    completions = [DecodeLoop().generate(policy, first), DecodeLoop().generate(policy, make_request(TopK(k=3), seed=1))]
    for request, made in zip([first, second], completions, strict=True):
        write_recording(tmp_path, request, made, version=request.version)
    replay = Replay(path=str(tmp_path))
    assert equal(replay.generate(policy, second), completions[1])
    assert equal(replay.generate(policy, first), completions[0])
    with pytest.raises(GRPOError, match=r"'held_out'.*\(0, 0, 0, 0, 0\) after 4 updates, but some after \[2, 6\]"):
        replay.generate(policy, replace(first, version=4))


def test_what_was_recorded_once_is_found_at_any_update(policy: CausalLM, tmp_path: Path) -> None:
    request = make_request(Temperature(), limit=2)
    recorded = DecodeLoop().generate(policy, request)
    write_recording(tmp_path, request, recorded, version=0)
    assert equal(Replay(path=str(tmp_path)).generate(policy, replace(request, version=5)), recorded)


def test_streams_have_files_of_their_own(policy: CausalLM, tmp_path: Path) -> None:
    for stream in ("a/b", "a-b", "a"):
        request = make_request(Temperature(), limit=2, stream=stream)
        path = write_recording(tmp_path, request, DecodeLoop().generate(policy, request), version=0)
        assert path.parent == tmp_path
    replay = Replay(path=str(tmp_path))
    tokens = [
        replay.generate(policy, make_request(Temperature(), limit=2, stream=stream)).tokens.tolist()
        for stream in ("a/b", "a-b", "a")
    ]
    assert tokens[0] != tokens[1] != tokens[2]


def test_a_missing_address_is_named(policy: CausalLM, tmp_path: Path) -> None:
    request = make_request(Temperature(), limit=2, members=2)
    write_recording(tmp_path, request, DecodeLoop().generate(policy, request), version=0)
    replay = Replay(path=str(tmp_path))
    with pytest.raises(GRPOError, match=r"no completion of 'train' at .* = \(0, 0, 0, 2, 0\): group_size"):
        replay.generate(policy, make_request(Temperature(), limit=2, members=3))
    with pytest.raises(GRPOError, match="'held_out'"):
        replay.generate(policy, make_request(Temperature(), limit=2, members=2, stream="held_out"))


@pytest.mark.parametrize("make", [True, False])
def test_a_folder_without_a_recording_is_refused(tmp_path: Path, make: bool) -> None:
    folder = tmp_path / "recorded"
    if make:
        folder.mkdir()
    with pytest.raises(ConfigError, match=r"path: .*recorded' holds no recording"):
        Replay(path=str(folder))


def test_a_recording_holds_tensors_only(policy: CausalLM, tmp_path: Path) -> None:
    request = make_request(TopK(k=3), limit=3, members=1)
    recorded = DecodeLoop().generate(policy, request)
    path = write_recording(tmp_path / "new" / "folder", request, recorded, version=0)
    torch.load(path, weights_only=True)
    rows = list(read_recording(path))
    assert [key for key, _ in rows] == [("train", tuple(address)) for address in request.address_QA.tolist()]
    assert [row["tokens"].tolist() for _, row in rows] == recorded.tokens.tolist()
