"""The reference in the run folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

from grpo_lightning.errors import GRPOError
from grpo_lightning.rollout.reference_file import file_hash, read_reference, write_reference
from helpers.tiny_policy import tiny_policy


def test_tied_weights_survive(tmp_path: Path) -> None:
    policy = tiny_policy(dtype="float32")
    policy.freeze_reference()
    state = policy.reference_state()
    assert state is not None
    path = tmp_path / "deep" / "reference.safetensors"
    digest = write_reference(path, state)
    assert digest == file_hash(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    again = read_reference([tmp_path / "nowhere", path], digest)
    assert again.keys() == state.keys()
    assert all(torch.equal(again[name], state[name]) for name in state)
    assert write_reference(tmp_path / "other", state) == digest


def test_the_file_with_the_right_content_is_found(tmp_path: Path) -> None:
    digests = [
        write_reference(tmp_path / name, {"x": torch.tensor([value])}) for name, value in (("a", 1.0), ("b", 2.0))
    ]
    assert read_reference([tmp_path / "a", tmp_path / "b"], digests[1])["x"].tolist() == [2.0]
    with pytest.raises(GRPOError, match=r"sha256 000000000000\.\.\.\) is in none of: .*a, .*b$"):
        read_reference([tmp_path / "a", tmp_path / "b", tmp_path / "a"], "0" * 64)
