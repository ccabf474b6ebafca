"""The verifiers of reasoning-gym as a reward."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import ConfigError, DataError, RewardError, require
from grpo_lightning.rewards.base import Reward
from grpo_lightning_reasoning_gym.entry_json import from_json, to_json
from grpo_lightning_reasoning_gym.evaluable import may_be_verified
from grpo_lightning_reasoning_gym.tasks import dataset

Find = Literal["tags", "last_line", "whole"]
_OPEN, _CLOSE = "<answer>", "</answer>"


class ReasoningGymReward(Reward):
    """Score in [0, 1] that the task's own verifier gives the answer found; abstains where a row has no column ``entry``.

    Many verifiers give part of the score for an answer that is nearly right. A completion without an answer, one whose
    answer is empty, and one whose answer would have to be run as code to be judged score 0. What a verifier raises is
    raised: the entry's ``on_failure`` says what it means.

    Args:
        find: What of a completion is its answer: what stands in its last ``<answer>...</answer>`` (``tags``), its last line
            that is not empty (``last_line``), or all of it (``whole``), without outer space.
        pattern: Regular expression with one group, in place of ``find``: the answer is what its last match captured.
        exact: Count only the full score: 1 if the verifier gives at least 1, else 0.

    Example:
        >>> reward = ReasoningGymReward()
        >>> entry = ReasoningGymReward.example_columns["entry"][0]  # 4 + 3 =
        >>> reward.score(completions=["<answer>7</answer>", "<answer>= 7</answer>", "7"], entry=[entry] * 3)
        [1.0, 0.3333333333333333, 0.0]
    """

    name = "reasoning_gym"
    version: ClassVar[str] = version("reasoning_gym")
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {
        "entry": [
            '{"task": "chain_sum", "options": {}, "question": "4 + 3 =", "answer": "7", "metadata": {}}',
            None,
        ]
    }

    def __init__(self, *, find: Find = "tags", pattern: str | None = None, exact: bool = False) -> None:
        require(find in ("tags", "last_line", "whole"), "find", find, "is no place", "set tags, last_line or whole")
        require(pattern is None or find == "tags", "find", find, "is set beside pattern", "leave one of them out")
        self.find, self.pattern, self.exact = find, None if pattern is None else _compiled(pattern), exact

    @override
    def setup(self) -> None:
        import reasoning_gym  # noqa: F401 - its second is not the first call's

    @override
    def score(self, *, completions: Sequence[str], entry: Sequence[str | None] | None = None) -> list[float | None]:
        """One score a row, or ``None`` where it has no entry.

        Raises:
            DataError: If an entry is not what the prompts ``reasoning_gym`` give.
            RewardError: If a verifier raises, naming task and answer.
        """
        entries = [None] * len(completions) if entry is None else entry
        return [self._score(text, each) for text, each in zip(completions, entries, strict=True)]

    @override
    def answer(self, completion: str) -> str:
        """The answer as the verifier gets it; empty where there is none."""
        return self._found(completion) or ""

    def _score(self, completion: str, entry: str | None) -> float | None:
        if entry is None:
            return None
        answer = self._found(completion)
        if not answer:
            return 0.0
        value = verified(answer, entry)
        return float(value >= 1.0) if self.exact else value

    def _found(self, completion: str) -> str | None:
        if self.pattern is not None:
            captured = [match.group(1) for match in self.pattern.finditer(completion)]
            return None if not captured or captured[-1] is None else captured[-1].strip()
        if self.find == "whole":
            return completion.strip()
        if self.find == "last_line":
            return completion.strip().rpartition("\n")[2].strip()
        end = completion.rfind(_CLOSE)
        start = completion.rfind(_OPEN, 0, max(end, 0))
        return completion[start + len(_OPEN) : end].strip() if start >= 0 else None


def verified(answer: str, entry: str) -> float:
    """The score that the verifier of an entry's task gives an answer.

    Args:
        answer: The answer.
        entry: Column ``entry`` of the prompts ``reasoning_gym``.

    Raises:
        DataError: If the entry is malformed.
        RewardError: If the verifier raises.
    """
    try:
        known = from_json(entry)  # anew at every call: some verifiers write into it
        task, options = known.pop("task"), known.pop("options")
        verifier = _verifier(task, to_json(options))
    except Exception as error:
        reason = f"is no entry of the prompts reasoning_gym ({type(error).__name__}: {error})"
        raise DataError("entry", entry, reason, "score such rows by another reward, with `when`") from error
    if not may_be_verified(task, answer):
        return 0.0
    try:
        return float(verifier.score_answer(answer, known))
    except Exception as error:
        told = f"the verifier of {task} raised {type(error).__name__} ({error}) for the answer {answer[:80]!r}"
        raise RewardError(told) from error


@lru_cache(maxsize=256)
def _verifier(task: str, options: str) -> Any:
    """A data set of the task, whose method ``score_answer`` is the verifier; making one reads files now and then."""
    return dataset(task, from_json(options), seed=0, size=1)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError("pattern", pattern, f"is no regular expression ({error})", "mend it") from None
    require(compiled.groups == 1, "pattern", pattern, f"has {compiled.groups} capturing groups", "use exactly one")
    return compiled
