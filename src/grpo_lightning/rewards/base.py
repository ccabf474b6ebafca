"""The contract of rewards: how good a completion is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from grpo_lightning.component import Component

Score = float | None | Sequence[float | None]
"""A number, ``None`` to abstain, or a number for each turn (their sum is the row's score)."""

RESERVED_ARGUMENTS: dict[str, str] = {
    "prompts": "the prompt of each row, as text or chat messages",
    "completions": "what the policy wrote in its last turn",
    "completion_ids": "token ids of what the policy wrote in its last turn",
    "turns": "the turns of each row (grpo_lightning.types.Turn)",
    "groups": "ordinal of each row's group; whole groups only",
    "members": "index of each row in its group",
    "finish_reasons": "grpo_lightning.types.FinishReason of each row",
    "lengths": "steps that the policy wrote",
    "log_probs": "behaviour log-probabilities of those steps",
    "base_rewards": "composed reward of each row, or None, from the entries that do not ask for this",
    "update": "optimizer steps taken so far (one number)",
    "stage": "'train', 'validation/NAME' or 'test/NAME' (one string)",
}
"""Arguments that a reward may ask for by name, beside the columns of the data set. No column may use these names."""


class Reward(Component, ABC):
    """Scores the rows of whole groups.

    :meth:`score` asks by argument name for what it needs: any of :data:`RESERVED_ARGUMENTS`, or columns of the data
    set. Each is a list with one entry a row (but ``update`` and ``stage``). An argument with a default is handed over
    only if there is such a column; ``**`` gets everything there is but ``base_rewards``. It may be a coroutine function.
    """

    kind = "reward"
    deterministic: ClassVar[bool] = True
    """Equal rows get equal scores. A judge that samples says ``False``: a resumed run is then not the same bit for bit."""
    version: ClassVar[str] = ""
    """Part of what scores are cached under: change it when scores change though neither this file nor its version does."""
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """Values of the columns that it reads, which rows take in turn: what the conformance kit tries it with."""

    def setup(self) -> None:
        """Load what scoring needs; called once, before the first rollout."""

    @abstractmethod
    def score(self, *args: Any, **arguments: Any) -> Sequence[Score] | Awaitable[Sequence[Score]]:
        """One score a row, in order. Overrides take keyword arguments only; they are called by name."""

    def answer(self, completion: str) -> str:
        """The part of a completion that is its answer, for majority votes: the whole without outer space by default."""
        return completion.strip()

    def columns(self) -> list[str]:
        """Columns that settings of this reward name: if there are some, ``**`` in ``score`` gets only them."""
        return []

    def scorer(self) -> Callable[..., Any]:
        """What is called with the arguments that its signature names: :meth:`score` by default."""
        return self.score

    @property
    def label(self) -> str:
        """Name in logs, unless the entry gives one."""
        return self.name
