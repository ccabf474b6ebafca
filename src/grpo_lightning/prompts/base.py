"""The contract of prompt sources: where prompts come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from grpo_lightning.component import Component


class PromptSource(Component, ABC):
    """A map from an index to a row. The constructor keeps settings; :meth:`load` reads, and finds every fault it can."""

    kind = "prompts"

    @abstractmethod
    def load(self) -> None:
        """Make the rows available; called once, before weights load.

        Raises:
            DataError: If the data are missing, empty or malformed, naming file and line.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def __getitem__(self, index: int) -> dict[str, Any]:
        """One row: ``prompt`` (text, or a list of chat messages) and further columns by name."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns of every row, ``prompt`` included."""
