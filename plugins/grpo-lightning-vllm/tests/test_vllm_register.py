"""The transport is made known to vLLM, in whose place stands what a plugin sees of it."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from types import ModuleType

import grpo_lightning_vllm
import pytest
from grpo_lightning_vllm import parent


class Factory:
    """Refuses a name that it knows, as vLLM's does."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}

    def register_engine(self, name: str, module: str, of: str) -> None:
        if name in self.known:
            raise ValueError(name)
        self.known[name] = (module, of)


@pytest.fixture
def factory(monkeypatch: pytest.MonkeyPatch) -> Factory:
    made = Factory()
    module = ModuleType("vllm.distributed.weight_transfer.factory")
    module.WeightTransferEngineFactory = made  # type: ignore[attr-defined]
    for name in ("vllm", "vllm.distributed", "vllm.distributed.weight_transfer"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_vllm_finds_it_and_may_ask_twice(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRPO_LIGHTNING_OWNED_SERVER", raising=False)
    watched: list[bool] = []
    monkeypatch.setattr(parent, "end_with_parent", lambda: watched.append(True))
    (point,) = entry_points(group="vllm.general_plugins", name="grpo_lightning")
    assert point.load() is grpo_lightning_vllm.register
    grpo_lightning_vllm.register()
    grpo_lightning_vllm.register()
    assert factory.known == {"grpo_lightning_files": ("grpo_lightning_vllm.files", "FileWeightTransferEngine")}
    assert watched == []


def test_a_server_of_a_run_ends_with_it(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPO_LIGHTNING_OWNED_SERVER", "1")
    watched: list[bool] = []
    monkeypatch.setattr(parent, "end_with_parent", lambda: watched.append(True))
    grpo_lightning_vllm.register()
    assert watched == [True]
