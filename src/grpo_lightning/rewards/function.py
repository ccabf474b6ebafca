"""Any Python callable as a reward."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import isclass
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import ConfigError, require
from grpo_lightning.rewards.base import Reward, Score


class FunctionReward(Reward):
    """What a function of yours returns, called with the arguments that its signature names.

    Args:
        function: The function, sync or async, or its import path (``my_package.rewards.polite``). Its argument names
            say what it gets: reserved ones (``completions``, ...) and columns of the data set; with ``**`` it gets all.

    Example:
        >>> def short(completions):
        ...     return [float(len(completion) < 5) for completion in completions]
        >>> FunctionReward(function=short).score(completions=["yes", "certainly"])
        [1.0, 0.0]
    """

    name = "function"
    example: ClassVar[Mapping[str, Any]] = {"function": "grpo_lightning.testing.examples.brief"}

    def __init__(self, *, function: Callable[..., Any] | str) -> None:
        found: Any = _import(function) if isinstance(function, str) else function
        require(callable(found), "function", function, "cannot be called", "give a function")
        require(
            not isclass(found), "function", function, "is a class", "give a function, or an instance that is called"
        )
        self.function: Callable[..., Any] = found

    @override
    def scorer(self) -> Callable[..., Any]:
        return self.function

    @override
    def score(self, **arguments: Any) -> Sequence[Score] | Awaitable[Sequence[Score]]:
        """What the function returns; an awaitable if it is async."""
        return self.function(**arguments)  # type: ignore[no-any-return]

    @property
    @override
    def label(self) -> str:
        """Name of the function."""
        function: Any = self.function
        while isinstance(function, partial):
            function = function.func
        return str(getattr(function, "__name__", type(function).__name__)).strip("<>")


def _import(path: str) -> Any:
    module, _, attribute = path.rpartition(".")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        fix = "give module.function, of a module that is installed or lies in the current folder"
        raise ConfigError("function", path, f"cannot be imported ({error})", fix) from None
