from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from torch.optim import Optimizer

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.cli.schema import parameters
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.settings import EvaluationSet, Generation
from grpo_lightning.transforms.base import Transform


class Owner:
    """Settings of every form."""

    def __init__(
        self,
        *,
        advantage: Advantage | str = "group_norm",
        rewards: list[RewardEntry],
        transforms: list[Transform] | None = None,
        kl: KLTerm | None = None,
        generation: Generation | None = None,
        train: PromptSource | dict[str, PromptSource] | None,
        validation: dict[str, EvaluationSet] | None = None,
        optimizer: Callable[[Iterable[Any]], Optimizer] | None = None,
        function: Callable[..., Any] | str = "x",
        columns: dict[str, str] | None = None,
        mode: Literal["a", "b"] = "a",
        anything: Any = None,
        untyped=3,  # type: ignore[no-untyped-def]
        **more: Any,
    ) -> None: ...


def forms(name: str) -> list[str]:
    return [shape.form for shape in parameters(Owner)[name].shapes]


def test_forms_follow_the_hints() -> None:
    expected = {
        "advantage": ["slot"],
        "rewards": ["list"],
        "transforms": ["list"],
        "kl": ["group"],
        "generation": ["group"],
        "train": ["slot", "names"],
        "validation": ["names"],
        "optimizer": ["factory"],
        "function": ["value"],
        "columns": ["value"],
        "mode": ["value"],
        "anything": ["value"],
        "untyped": ["value"],
    }
    assert {name: forms(name) for name in parameters(Owner)} == expected


def test_kinds_are_found_wherever_a_component_stands() -> None:
    kinds = {name: parameter.kind for name, parameter in parameters(Owner).items() if parameter.kind}
    assert kinds == {
        "advantage": "advantage",
        "rewards": "reward",
        "transforms": "transform",
        "kl": "kl",
        "train": "prompts",
        "validation": "prompts",
    }


def test_required_and_nullable() -> None:
    found = parameters(Owner)
    assert [name for name, parameter in found.items() if parameter.required] == ["rewards", "train"]
    assert [name for name, parameter in found.items() if not parameter.nullable] == [
        "advantage", "rewards", "function", "mode",
    ]  # fmt: skip


def test_what_a_factory_makes() -> None:
    shape = parameters(Owner)["optimizer"].shape("factory")
    assert shape is not None
    assert shape.returns == (Optimizer,)


def test_fields_of_a_dataclass() -> None:
    assert list(parameters(Generation)) == ["max_new_tokens", "stop", "mask_truncated", "rollouts_ahead"]
    assert parameters(EvaluationSet)["sampler"].kind == "sampler"


def test_a_class_without_a_constructor_has_no_settings() -> None:
    class Plain:
        pass

    assert parameters(Plain) == {}


def test_hints_that_do_not_exist_at_run_time_leave_values_unchecked() -> None:
    class Stranger:
        def __init__(self, *, x: OnlyForTypeCheckers = 1) -> None: ...  # noqa: F821  # type: ignore[name-defined]

    assert [shape.form for shape in parameters(Stranger)["x"].shapes] == ["value"]
