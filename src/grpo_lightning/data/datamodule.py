"""The data of a run: training prompts, evaluation sets, and which prompts come next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningDataModule
from typing_extensions import override

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.data.loader import WorkItemLoader
from grpo_lightning.data.prompt_set import PromptFormat, PromptSet
from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.policies.base import Policy
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.registry import build
from grpo_lightning.rollout import world
from grpo_lightning.settings import EvaluationSet, LongPromptPolicy

if TYPE_CHECKING:
    from grpo_lightning.module import GRPOModule


@dataclass  # not frozen: Lightning refuses frozen batches where it converts their tensors to a true precision
class EvaluationBatch:
    """Prompts of an evaluation set that are completed at once."""

    dataset: str
    indices: list[int]


class _EvaluationLoader:
    """This rank's prompts of one evaluation set."""

    def __init__(self, dataset: str, size: int, batch: int) -> None:
        own = world.block(size)
        self.batches = [EvaluationBatch(dataset, list(own)[i : i + batch]) for i in range(0, len(own), batch)]
        # Ranks come equally often, also those without prompts: they report together, and where weights are sharded a batch
        # begins together.
        most = max(1, -(-max(len(world.block(size, rank)) for rank in range(world.world_size())) // batch))
        self.batches += [EvaluationBatch(dataset, [])] * (most - len(self.batches))

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[EvaluationBatch]:
        return iter(self.batches)


class GRPODataModule(LightningDataModule):
    """Prompts to train and to evaluate on.

    Args:
        train: One source, or several by name for a curriculum that mixes them.
        validation: Sets evaluated before GRPO starts, every ``validate_every`` updates, and by ``validate``.
        test: Sets evaluated by ``test`` and completed by ``predict``; by default those of ``validation``.
        curriculum: Which prompts come next.
        chat: Ask a plain text prompt as a user's message, through the chat template.
        system_prompt: First message of every prompt that has none; makes plain text prompts chat.
        prefill: Start of every answer, continued by the policy; it is part of the prompt.
        validate_every: Updates between validations; ``None`` for none while training.
        max_prompt_tokens: Tokens that a prompt may have; by default what the context leaves beside
            ``model.generation.max_new_tokens``.
        long_prompts: What happens to a longer one: ``error`` before weights load, ``drop``, or ``truncate`` at its start.
    """

    def __init__(
        self,
        *,
        train: PromptSource | dict[str, PromptSource] | None = None,
        validation: dict[str, EvaluationSet] | None = None,
        test: dict[str, EvaluationSet] | None = None,
        curriculum: Curriculum | str = "shuffled",
        chat: bool = False,
        system_prompt: str | None = None,
        prefill: str | None = None,
        validate_every: int | None = None,
        max_prompt_tokens: int | None = None,
        long_prompts: LongPromptPolicy = "error",
    ) -> None:
        super().__init__()
        if validate_every is not None:
            require_range("data.validate_every", validate_every, low=1)
        if max_prompt_tokens is not None:
            require_range("data.max_prompt_tokens", max_prompt_tokens, low=1)
        require(long_prompts in ("error", "drop", "truncate"), "data.long_prompts", long_prompts, "is no policy",
                "set error, drop or truncate")  # fmt: skip
        sources = {"train": train} if isinstance(train, PromptSource) else dict(train or {})
        self.sources, self.validation = sources, dict(validation or {})
        self.test = self.validation if test is None else dict(test)
        self.curriculum: Curriculum = build("curriculum", curriculum, "data.curriculum")
        self.format = PromptFormat(system_prompt, prefill, chat)
        self.validate_every, self.max_prompt_tokens, self.long_prompts = validate_every, max_prompt_tokens, long_prompts
        self.train_sets: dict[str, PromptSet] = {}
        self.evaluation_sets: dict[tuple[str, str], PromptSet] = {}
        """By kind (``validation`` or ``test``) and name."""
        self.loader: WorkItemLoader | None = None

    @property
    def module(self) -> GRPOModule:
        """The module of the run."""
        assert self.trainer is not None
        return self.trainer.lightning_module  # type: ignore[return-value]

    @override
    def setup(self, stage: str) -> None:
        policy = self.module.policy
        try:
            policy.prepare()
        except ConfigError as error:
            raise error.under("model.policy") from None
        if stage == "fit" and not self.train_sets:
            require(bool(self.sources), "data.train", None, "is missing", "say where prompts come from")
            single = list(self.sources) == ["train"]
            for name, source in self.sources.items():
                setting = "data.train" if single else f"data.train.{name}"
                self.train_sets[name] = self._load(name, setting, source, policy, None)
            sizes = {name: len(each) for name, each in self.train_sets.items()}
            try:
                self.curriculum.bind(sizes, self.module.seed)
            except ConfigError as error:
                raise error.under("data.curriculum") from None
        kind = "validation" if stage in ("fit", "validate") else "test"
        for name, settings in (self.validation if kind == "validation" else self.test).items():
            if (kind, name) not in self.evaluation_sets:
                limit, setting = settings.limit, f"data.{kind}.{name}"
                self.evaluation_sets[kind, name] = self._load(name, setting, settings.source, policy, limit)

    def _load(self, name: str, setting: str, source: PromptSource, policy: Policy, limit: int | None) -> PromptSet:
        try:
            source.load()
        except ConfigError as error:
            raise error.under(setting) from None
        prompts = PromptSet(name, setting, source, self.format, limit)
        room = policy.context_length - self.module.generation.max_new_tokens
        require(room >= 1, "model.generation.max_new_tokens", self.module.generation.max_new_tokens,
                f"leaves no room for a prompt in a context of {policy.context_length}", "lower it")  # fmt: skip
        if self.max_prompt_tokens is not None:
            require(self.max_prompt_tokens <= room, "data.max_prompt_tokens", self.max_prompt_tokens,
                    f"and model.generation.max_new_tokens do not fit a context of {policy.context_length}",
                    f"set it to at most {room}")  # fmt: skip
            room = self.max_prompt_tokens
        prompts.encode(policy, room, self.long_prompts)
        return prompts

    @override
    def train_dataloader(self) -> WorkItemLoader:
        self.loader = WorkItemLoader(self.module.schedule)
        return self.loader

    @override
    def val_dataloader(self) -> list[_EvaluationLoader]:
        return self._loaders("validation", self.validation)

    @override
    def test_dataloader(self) -> list[_EvaluationLoader]:
        return self._loaders("test", self.test)

    @override
    def predict_dataloader(self) -> list[_EvaluationLoader]:
        return self._loaders("test", self.test)

    @override
    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        return batch  # work items and indices: there are no tensors in them

    def _loaders(self, kind: str, sets: dict[str, EvaluationSet]) -> list[_EvaluationLoader]:
        return [
            _EvaluationLoader(name, len(self.evaluation_sets[kind, name]), settings.batch_prompts)
            for name, settings in sets.items()
        ]
