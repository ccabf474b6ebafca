from __future__ import annotations

from grpo_lightning.cli.documentation import all_options, description, options
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.settings import EvaluationSet


class Documented:
    """One line.

    More about it.

    Args:
        x: What x is,
            on two lines.
        z: Free.

    Example:
        >>> 1
        1
    """

    def __init__(
        self, *, x: int, y: float | None = None, z: tuple[str, ...] = ("a",), other: object = object()
    ) -> None:
        self.x = x


def test_options_of_a_class() -> None:
    found = {option.name: option for option in options(Documented)}
    assert found["x"].required
    assert found["x"].type == "int"
    assert found["x"].help == "What x is, on two lines."
    assert (found["y"].type, found["y"].default, found["y"].help) == ("float | None", None, "")
    assert found["z"].default == ("a",)
    assert found["other"].default == "its own"


def test_groups_of_settings_are_opened() -> None:
    names = [option.name for option in all_options(CausalLM)]
    assert names[:3] == ["model", "lora", "lora.rank"]


def test_kinds_and_fields_of_a_dataclass() -> None:
    found = {option.name: option for option in options(EvaluationSet)}
    assert found["source"].kind == "prompts"
    assert found["sampler"].kind == "sampler"
    assert found["samples"].help.startswith("Completions a prompt")


def test_description_leaves_the_lists_out() -> None:
    assert description(Documented) == "One line.\n\nMore about it."


def test_a_class_without_constructor_or_docstring() -> None:
    class Plain:
        pass

    assert list(options(Plain)) == []
    assert description(Plain) == ""
