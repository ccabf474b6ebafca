"""Checks of a whole run, made before weights load."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from grpo_lightning.errors import ConfigError, DataError, require
from grpo_lightning.rewards.arguments import check_columns
from grpo_lightning.rewards.checks import check_calls
from grpo_lightning.rewards.composer import check_entries

if TYPE_CHECKING:
    from lightning.pytorch import Trainer

    from grpo_lightning.data.datamodule import GRPODataModule
    from grpo_lightning.data.prompt_set import PromptSet
    from grpo_lightning.module import GRPOModule


def check_module(module: GRPOModule) -> None:
    """Check the settings of a module against each other.

    Raises:
        ConfigError: Naming the setting, its value and the fix.
    """
    for name in (
        "group_size",
        "prompts_per_rollout",
        "epochs_per_rollout",
        "updates_per_rollout",
        "micro_batch_tokens",
    ):
        value = getattr(module, name)
        require(value >= 1, f"model.{name}", value, "is below 1", "set it to at least 1")
    require(module.updates_per_rollout <= module.prompts_per_rollout, "model.updates_per_rollout",
            module.updates_per_rollout, f"is above prompts_per_rollout ({module.prompts_per_rollout})",
            "an update needs a group; lower it")  # fmt: skip
    require(module.learning_rate > 0, "model.learning_rate", module.learning_rate, "is not positive", "set it above 0")
    require(module.non_finite in ("stop", "skip"), "model.non_finite", module.non_finite, "is no policy",
            "set stop or skip")  # fmt: skip
    advantage = module.advantage
    require(module.group_size > 1 or not advantage.compares, "model.group_size", module.group_size,
            f"gives advantage {advantage.name!r} nothing to compare with", "set it to at least 2")  # fmt: skip
    require(module.sampler.explores, "model.sampler", module.sampler.name, "draws equal completions for a whole group",
            "train with another sampler and keep this one for evaluation")  # fmt: skip
    _check_advantage(module)
    level = advantage.per
    for index, transform in enumerate(module.transforms):
        if level == "step" and transform.level == "row":
            follows = "a transform that gives" if index else f"advantage {advantage.name!r}, which gives"
            raise ConfigError(f"model.transforms.{index}", transform.name, f"takes one value a row and follows {follows} "
                              "one a step", "move it before that one" if index else "leave it out")  # fmt: skip
        level = transform.level
    check_entries(module.rewards, "model.rewards")
    check_calls(module.rewards, "model.rewards")
    module.objective.check()
    if module.generation.rollouts_ahead:
        _check_ahead(module)


def _check_ahead(module: GRPOModule) -> None:
    setting, value, objective = "model.generation.rollouts_ahead", module.generation.rollouts_ahead, module.objective
    corrected = objective.loss.weighs_sampler or (objective.correction is not None and objective.correction.off_policy)
    require(corrected, setting, value, "trains on completions of weights from before the last rollout, and nothing weighs them",
            "set model.correction, truncated_importance for one, or set it to 0")  # fmt: skip
    require(module.engine.keeps_weights, setting, value, f"needs an engine with weights of its own, and {module.engine.name!r} "
            "samples with those that train", "set it to 0, or generate with vllm")  # fmt: skip
    require(not module.environment.state_dict(), setting, value, f"would change the state of environment "
            f"{module.environment.name!r} between two updates", "set it to 0")  # fmt: skip


def check_strategy(trainer: Trainer) -> None:
    """Check that rollouts and gradients are known to be right under the trainer's strategy.

    Raises:
        ConfigError: Naming the setting and the fix.
    """
    from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy

    for refused, reason in (
        (FSDPStrategy, "gives no weights outside of its own passes, and rollouts are made there"),
        (DeepSpeedStrategy, "scales and accumulates gradients in its own way, which is compared with nothing here"),
    ):
        require(not isinstance(trainer.strategy, refused), "trainer.strategy", type(trainer.strategy).__name__, reason,
                "set it to fsdp2")  # fmt: skip


def check_engine(module: GRPOModule) -> None:
    """Check that the engine can have the weights of the policy.

    Raises:
        ConfigError: Naming the setting and the fix.
    """
    whole = getattr(module.trainer.strategy, "unshard_for_rollout", True)
    require(whole or not module.engine.keeps_weights, "trainer.strategy.init_args.unshard_for_rollout", whole,
            f"leaves no process with the weights that engine {module.engine.name!r} is to be given",
            "set it to true, or generate with decode_loop")  # fmt: skip


def _check_advantage(module: GRPOModule) -> None:
    advantage = module.advantage
    least = advantage.smallest_group
    require(module.group_size >= least, "model.group_size", module.group_size,
            f"is below what advantage {advantage.name!r} needs, {least}", f"set it to at least {least}")  # fmt: skip
    kept = _largest_group(module)
    require(kept >= least, "model.selector", module.selector.name,
            f"leaves advantage {advantage.name!r} {kept} rows of a group, and it needs {least}",
            "let it keep more, or take another advantage")  # fmt: skip
    penalised = module.kl is not None and module.kl.in_reward
    require(advantage.takes_penalty or not penalised, "model.kl.where", "reward",
            f"makes rewards that advantage {advantage.name!r} has no meaning for", "set it to loss")  # fmt: skip
    require(module.environment.gives_states or not advantage.needs_states, "model.advantage", advantage.name,
            f"compares turns that begin in equal states, and environment {module.environment.name!r} tells none",
            "take an environment with gives_states, or another advantage")  # fmt: skip
    if advantage.reads_components:
        for index, entry in enumerate(module.rewards):
            require(not entry.gate, f"model.rewards.{index}.gate", True,
                    f"has no meaning for advantage {advantage.name!r}, which looks at each reward by itself",
                    "give the reward a weight, or take another advantage")  # fmt: skip
        require(not penalised, "model.kl.where", "reward",
                f"does not reach advantage {advantage.name!r}, which takes rewards one by one", "set it to loss")  # fmt: skip


def _largest_group(module: GRPOModule) -> int:
    try:
        return module.selector.largest_group(module.group_size)
    except ConfigError as error:
        raise error.under("model.selector") from None


def check_fit(module: GRPOModule, data: GRPODataModule, trainer: Trainer) -> None:
    """Check a training run, its data loaded and encoded, before weights load.

    Raises:
        ConfigError: Naming the setting, its value and the fix.
        DataError: If the data do not fit the run.
    """
    given = trainer.accumulate_grad_batches
    require(given == 1, "trainer.accumulate_grad_batches", given, "is set by hand",
            "leave it out: it follows from model.micro_batch_tokens")  # fmt: skip
    require(trainer.max_steps is not None and trainer.max_steps > 0, "trainer.max_steps", trainer.max_steps,
            "is no number of updates", "set it to the optimizer steps of the run, the warm-up's included")  # fmt: skip
    warmup = module.warmup.updates if module.warmup else 0
    require(warmup <= trainer.max_steps, "model.warmup.updates", warmup, f"is above trainer.max_steps ({trainer.max_steps})",
            "raise trainer.max_steps")  # fmt: skip
    ranks = trainer.world_size
    require(module.prompts_per_rollout >= ranks, "model.prompts_per_rollout", module.prompts_per_rollout,
            f"leaves some of {ranks} processes without a prompt", f"set it to at least {ranks}")  # fmt: skip
    rows = sum(len(each) for each in data.train_sets.values())
    if rows < module.prompts_per_rollout:
        raise DataError("data.train", f"{rows} prompts", f"are fewer than one rollout takes ({module.prompts_per_rollout})",
                        "lower model.prompts_per_rollout or give more data")  # fmt: skip
    for prompts in data.train_sets.values():
        _check_columns(module, prompts)
    chat = any(not isinstance(prompts.prompt(0).messages, str) for prompts in data.train_sets.values())
    if chat and module.environment.max_turns > 1:
        try:
            module.policy.check_turns()
        except ConfigError as error:
            raise error.under("model.policy") from None
    wanted = [
        (f"model.auxiliary.{name}.target", getattr(term.loss, "target", None))
        for name, term in module.auxiliary.items()
    ]
    wanted += [("model.warmup.loss.target", getattr(module.warmup.loss, "target", None))] if module.warmup else []
    for setting, column in wanted:
        for prompts in data.train_sets.values():
            if column is not None:
                _check_column(setting, column, prompts.source.columns)
    for column in module.advantage.columns:
        for prompts in data.train_sets.values():
            _check_column("model.advantage.columns", column, prompts.prompt(0).columns)


def _check_column(setting: str, column: str, columns: Collection[str]) -> None:
    if column not in columns:
        raise DataError(setting, column, "is no column of the training data",
                        "columns: " + ", ".join(columns))  # fmt: skip


def check_evaluation(module: GRPOModule, data: GRPODataModule, stage: str) -> None:
    """Check that the evaluation sets have the columns that the rewards ask for.

    Raises:
        ConfigError: Naming the set and the column.
    """
    kind = "validation" if stage in ("fit", "validate") else "test"
    sets = data.validation if kind == "validation" else data.test
    require(bool(sets) or stage == "fit", f"data.{kind}", None, "is missing", "name a data set to evaluate on")
    for name in sets:
        _check_columns(module, data.evaluation_sets[kind, name])


def _check_columns(module: GRPOModule, prompts: PromptSet) -> None:
    try:
        check_columns(module.rewards, prompts.source.columns, "model.rewards")
    except ConfigError as error:
        raise type(error)(error.setting, error.value, f"{error.reason} ({prompts.setting})", error.fix) from None
