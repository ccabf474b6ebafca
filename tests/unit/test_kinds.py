from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from grpo_lightning import hookspecs
from grpo_lightning.component import Component
from grpo_lightning.kinds import KINDS, Kind


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_kind_has_a_base_class_and_a_hook(kind: Kind) -> None:
    base = kind.base_class()
    assert base.__name__ == kind.base
    assert kind.decides
    assert hasattr(hookspecs, kind.hook)
    if kind.name != "callback":
        assert issubclass(base, Component)
        assert base.kind == kind.name
        assert inspect.isabstract(base)
        assert f"``{base.__module__}.{kind.base}``" in (getattr(hookspecs, kind.hook).__doc__ or "")


def test_keys_are_names_and_folders_differ() -> None:
    assert all(name == kind.name for name, kind in KINDS.items())
    assert len({kind.folder for kind in KINDS.values()}) == len(KINDS)


def test_every_registering_hook_is_of_a_kind() -> None:
    hooks = {name for name in vars(hookspecs) if name.startswith("grpo_register_")}
    assert hooks == {kind.hook for kind in KINDS.values()} | {"grpo_register_commands"}


def test_kinds_and_registry_import_neither_torch_nor_lightning() -> None:
    code = (
        "import sys, grpo_lightning.registry; print(sorted({'torch', 'lightning', 'transformers'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def test_a_component_has_no_state_unless_it_says_so() -> None:
    component = Component()
    assert component.state_dict() == {}
    component.load_state_dict({})
