"""The GRPO step as a LightningModule."""

from __future__ import annotations

import os
from typing import Any, Literal, cast

from lightning.pytorch import Callback, LightningModule
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.aggregations.base import Aggregation
from grpo_lightning.callbacks.run_end import RunEnd
from grpo_lightning.corrections.base import Correction
from grpo_lightning.data.datamodule import EvaluationBatch, GRPODataModule
from grpo_lightning.engines.base import Engine
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.environments.base import Environment
from grpo_lightning.errors import ConfigError
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import PolicyLoss
from grpo_lightning.objective import Objective
from grpo_lightning.plugin_record import PluginRecord
from grpo_lightning.policies.base import Policy
from grpo_lightning.registry import build
from grpo_lightning.reports import EvaluationReport, UpdateReport
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rollout import world
from grpo_lightning.rollout.progress import Committed, read_committed, write_committed
from grpo_lightning.rollout.schedule import Schedule, WorkItem
from grpo_lightning.run_checks import check_engine, check_evaluation, check_fit, check_module, check_strategy
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.selectors.base import Selector
from grpo_lightning.session import Session
from grpo_lightning.settings import AuxiliaryTerm, Generation, Warmup, named_terms
from grpo_lightning.strategies.checkpoint_files import write_safely
from grpo_lightning.strategies.preemption import Preemption
from grpo_lightning.strategies.sharding import load
from grpo_lightning.transforms.base import Transform
from grpo_lightning.update import RunningUpdate, finish_and_clip, optimizers, stage_learning_rate, untouched


class GRPOModule(LightningModule):
    """Group relative policy optimization (Shao et al., arXiv 2402.03300), every part of it a component.

    A work item of the loader is one micro-batch. The first of a rollout fills the buffer (sample, score, estimate, select);
    each trains its micro-batch; the last of an update lets the optimizer step. Components may be given by name.

    Args:
        policy: What is trained.
        rewards: How good a completion is: rewards with their weights.
        group_size: Completions of a prompt.
        prompts_per_rollout: Groups of a rollout, over all ranks.
        epochs_per_rollout: Passes over the rows of a rollout.
        updates_per_rollout: Updates of a pass; groups are dealt to them at random.
        micro_batch_tokens: Tokens, prompts included, of one forward and backward pass.
        generation: Limits of what the policy writes.
        engine: Who generates.
        sampler: How completions are drawn.
        environment: What happens between turns.
        advantage: What a reward means.
        transforms: Credit after the estimator, in this order.
        selector: Which groups train.
        loss: The surrogate.
        aggregation: How its terms become one scalar.
        correction: Off-policy weights between sampler and trainer.
        kl: Distance to the reference, its weight and its place.
        entropy: Bonus for entropy.
        auxiliary: Losses beside GRPO.
        warmup: Supervised updates before GRPO; its reference is the policy after them.
        optimizer: Makes the optimizer from parameters; AdamW without weight decay by default.
        lr_scheduler: Makes the learning rate schedule, stepped every update after the warm-up.
        learning_rate: Learning rate of the default optimizer.
        non_finite: What a loss or gradient that is not finite does: ``stop`` the run, or ``skip`` the update.
        seed: Seed of every draw; by default that of ``seed_everything``, or 0.
        record: Write what the engine generates to the run folder, for the engine ``replay``.
    """

    session: Session
    schedule: Schedule

    def __init__(
        self,
        *,
        policy: Policy,
        rewards: list[RewardEntry],
        group_size: int = 8,
        prompts_per_rollout: int = 16,
        epochs_per_rollout: int = 1,
        updates_per_rollout: int = 1,
        micro_batch_tokens: int = 16384,
        generation: Generation | None = None,
        engine: Engine | str = "decode_loop",
        sampler: Sampler | str = "temperature",
        environment: Environment | str = "single_turn",
        advantage: Advantage | str = "group_norm",
        transforms: list[Transform] | None = None,
        selector: Selector | str = "all",
        loss: PolicyLoss | str = "clipped",
        aggregation: Aggregation | str = "token_mean",
        correction: Correction | None = None,
        kl: KLTerm | None = None,
        entropy: EntropyBonus | None = None,
        auxiliary: list[AuxiliaryTerm] | None = None,
        warmup: Warmup | None = None,
        optimizer: OptimizerCallable | None = None,
        lr_scheduler: LRSchedulerCallable | None = None,
        learning_rate: float = 1e-6,
        non_finite: Literal["stop", "skip"] = "stop",
        seed: int | None = None,
        record: bool = False,
    ) -> None:
        super().__init__()
        self.policy, self.rewards = policy, list(rewards)
        self.group_size, self.prompts_per_rollout = group_size, prompts_per_rollout
        self.epochs_per_rollout, self.updates_per_rollout = epochs_per_rollout, updates_per_rollout
        self.micro_batch_tokens = micro_batch_tokens
        self.generation = generation or Generation()
        self.engine: Engine = build("engine", engine, "model.engine")
        self.sampler: Sampler = build("sampler", sampler, "model.sampler")
        self.environment: Environment = build("environment", environment, "model.environment")
        self.advantage: Advantage = build("advantage", advantage, "model.advantage")
        self.transforms = list(transforms or [])
        self.selector: Selector = build("selector", selector, "model.selector")
        self.objective = Objective(
            build("loss", loss, "model.loss"),
            build("aggregation", aggregation, "model.aggregation"),
            kl,
            correction,
            entropy,
        )
        self.kl, self.warmup, self.auxiliary = kl, warmup, named_terms(auxiliary or [])
        self._optimizer, self._lr_scheduler, self.learning_rate = optimizer, lr_scheduler, learning_rate
        self.non_finite, self.record = non_finite, record
        self.seed = int(os.environ.get("PL_GLOBAL_SEED", 0)) if seed is None else seed
        self.evaluation_reports: list[EvaluationReport] = []
        self._update = RunningUpdate()
        self._restored: Committed | None = None
        check_module(self)

    @override
    def setup(self, stage: str) -> None:
        write_safely(self.trainer)
        check_strategy(self.trainer)
        check_engine(self)
        self.policy.prepare()
        data = cast(GRPODataModule, self.trainer.datamodule)  # type: ignore[attr-defined]
        self.session = Session(self, data)
        if stage == "fit":
            check_fit(self, data, self.trainer)
            self.schedule = self.session.schedule(self.trainer.max_steps)
            self.session.configure_loop(self.schedule)
        check_evaluation(self, data, stage)

    @override
    def configure_model(self) -> None:
        try:
            load(self)
        except ConfigError as error:
            raise error.under("model.policy") from None

    @override
    def configure_optimizers(self) -> Any:
        return optimizers(self, self._optimizer, self._lr_scheduler)

    @override
    def configure_callbacks(self) -> list[Callback]:
        return [PluginRecord(), RunEnd(), Preemption()]

    @override
    def on_train_start(self) -> None:
        self.session.start(self._restored)
        self._restored = None

    @override
    def training_step(self, item: WorkItem, batch_idx: int) -> dict[str, Any]:
        """Train one micro-batch. Its loss is scaled so that what Lightning and the strategy divide by cancels."""
        outputs: dict[str, Any] = {}
        if item.opens_rollout and item.stage == "grpo":
            if item.rollout == 0:
                outputs["evaluation"] = self.session.evaluations.baseline()
            outputs["rollout"] = self.session.open_rollout(item.rollout)
        if item.micro_batch == 0:
            self._update = RunningUpdate()
            self.session.open_update(item)
        loss = self.session.micro_batch_loss(item, self._update.statistics)
        self._update.losses += [] if loss is None else [loss.detach()]
        if item.is_last:
            rollout = item.rollout if item.stage == "grpo" else -1
            outputs["update"] = self._update.report = UpdateReport(item.stage, self.trainer.global_step + 1, rollout)
        outputs["loss"] = (untouched(self) if loss is None else loss) * (
            self.schedule.micro_batches * world.world_size()
        )
        return outputs

    @override
    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        algorithm = gradient_clip_algorithm
        finish_and_clip(self, self._update, self.non_finite, optimizer, gradient_clip_val, algorithm)

    @override
    def optimizer_step(self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None) -> None:
        step = self.trainer.global_step
        in_warmup = step < self.schedule.warmup_updates
        with stage_learning_rate(optimizer, self.warmup.learning_rate if in_warmup and self.warmup else None):
            super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
            rate = optimizer.param_groups[0]["lr"]
        if in_warmup and step + 1 == self.schedule.warmup_updates:
            # GRPO starts with an optimizer of its own: moments of another loss would steer its first updates.
            self.trainer.optimizers[0].state.clear()
        self._update.complete(rate)
        self.session.commit(self._update.report, in_progress=not self.schedule.closes_rollout(step))

    @override
    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        if self.trainer.global_step > self.schedule.warmup_updates:
            super().lr_scheduler_step(scheduler, metric)

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.trainer.state.fn == "fit":
            write_committed(checkpoint, self.session.committed, self.schedule.micro_batches)

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.trainer.state.fn == "fit":
            self._restored = read_committed(checkpoint, self.schedule.micro_batches)

    @override
    def validation_step(self, batch: EvaluationBatch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.session.evaluations.evaluate(batch, "validation")

    @override
    def test_step(self, batch: EvaluationBatch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.session.evaluations.evaluate(batch, "test")

    @override
    def predict_step(self, batch: EvaluationBatch, batch_idx: int, dataloader_idx: int = 0) -> list[dict[str, Any]]:
        return [row.prediction() for row in self.session.evaluations.evaluate(batch, "test")]

    @override
    def on_validation_epoch_end(self) -> None:
        self.session.evaluations.publish("validation")

    @override
    def on_test_epoch_end(self) -> None:
        self.session.evaluations.publish("test")
