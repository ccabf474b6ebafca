"""The four kinds of verdict, each with the words that ask for it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from typing_extensions import override

from grpo_lightning_judge.answers import as_list, as_number, as_whole, find_field, find_pattern
from grpo_lightning_judge.failures import NoVerdict

T_co = TypeVar("T_co", covariant=True)
Winner = Literal["A", "B", "tie"]


class Parser(ABC, Generic[T_co]):
    """Reads a verdict from an answer."""

    @property
    @abstractmethod
    def instruction(self) -> str:
        """How the judge is told to write it; empty with a pattern, for then the template tells it."""

    @abstractmethod
    def example(self, draw: int) -> str:
        """An answer with the verdict that the number ``draw`` picks; what a dry run answers."""

    @abstractmethod
    def parse(self, answer: str) -> T_co:
        """The verdict.

        Raises:
            NoVerdict: If the answer holds none.
        """


@dataclass(frozen=True)
class Grade(Parser[float]):
    """A number on a scale, returned as its share of the scale: ``(x - low) / (high - low)``."""

    low: float
    high: float
    pattern: str | None = None

    @property
    @override
    def instruction(self) -> str:
        if self.pattern is not None:
            return ""
        return f'End with one line of JSON. For example: {{"score": {(self.low + self.high) / 2:g}}}'

    @override
    def example(self, draw: int) -> str:
        return json.dumps({"score": self.low + (self.high - self.low) * (draw % 11) / 10})

    @override
    def parse(self, answer: str) -> float:
        found = find_field(answer, "score") if self.pattern is None else find_pattern(answer, self.pattern)
        number = as_number(found)
        if not self.low <= number <= self.high:
            raise NoVerdict(f"the score {number:g} is outside {self.low:g} to {self.high:g}")
        return (number - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Preference(Parser[Winner]):
    """Which of two is better."""

    pattern: str | None = None

    @property
    @override
    def instruction(self) -> str:
        if self.pattern is not None:
            return ""
        return 'End with one line of JSON that names A, B or tie. For example: {"winner": "B"}'

    @override
    def example(self, draw: int) -> str:
        return json.dumps({"winner": ("A", "B", "tie")[draw % 3]})

    @override
    def parse(self, answer: str) -> Winner:
        found = find_field(answer, "winner") if self.pattern is None else find_pattern(answer, self.pattern)
        winner = found.strip().casefold() if isinstance(found, str) else None
        if winner == "a":
            return "A"
        if winner == "b":
            return "B"
        if winner == "tie":
            return "tie"
        raise NoVerdict("the winner is neither A nor B nor tie")


@dataclass(frozen=True)
class Marks(Parser[list[int]]):
    """+1, 0 or -1 for each of some criteria."""

    criteria: int

    @property
    @override
    def instruction(self) -> str:
        example = ", ".join(str((1, 0, -1)[index % 3]) for index in range(self.criteria))
        return (
            f"End with one line of JSON that has the {self.criteria} marks in the order of the criteria. "
            f'For example: {{"marks": [{example}]}}'
        )  # fmt: skip

    @override
    def example(self, draw: int) -> str:
        return json.dumps({"marks": [draw // 3**place % 3 - 1 for place in range(self.criteria)]})

    @override
    def parse(self, answer: str) -> list[int]:
        marks = [as_whole(mark) for mark in as_list(find_field(answer, "marks"), self.criteria)]
        if not set(marks) <= {-1, 0, 1}:
            raise NoVerdict("a mark is neither 1 nor 0 nor -1")
        return marks


@dataclass(frozen=True)
class Ranking(Parser[list[int]]):
    """An order of all responses, best first, returned as their indices from 0."""

    responses: int

    @property
    @override
    def instruction(self) -> str:
        example = ", ".join(str(number) for number in range(self.responses, 0, -1))
        return (
            f"End with one line of JSON that has the numbers of all {self.responses} responses, the best first. "
            f'For example: {{"ranking": [{example}]}}'
        )  # fmt: skip

    @override
    def example(self, draw: int) -> str:
        numbers = list(range(1, self.responses + 1))
        ranking = []
        while numbers:
            draw, place = divmod(draw, len(numbers))
            ranking.append(numbers.pop(place))
        return json.dumps({"ranking": ranking})

    @override
    def parse(self, answer: str) -> list[int]:
        numbers = [as_whole(each) for each in as_list(find_field(answer, "ranking"), self.responses)]
        if sorted(numbers) != list(range(1, self.responses + 1)):
            raise NoVerdict(f"the ranking does not name each of 1 to {self.responses} once")
        return [number - 1 for number in numbers]
