"""What a module does during a run: filling buffers, computing losses, evaluating, committing state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from grpo_lightning.callbacks.run_files import run_folder
from grpo_lightning.data.datamodule import EvaluationBatch, GRPODataModule
from grpo_lightning.engines.recording import write_recording
from grpo_lightning.evaluation import EvaluationMetrics
from grpo_lightning.functional.packing import worst_case_bins
from grpo_lightning.registry import build
from grpo_lightning.reports import EvaluationReport, RolloutReport
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, fill, run_mask
from grpo_lightning.rollout.collector import Collected, Collector, Judging
from grpo_lightning.rollout.evaluate import EvaluatedRow, evaluate
from grpo_lightning.rollout.play import Group, PlaySettings
from grpo_lightning.rollout.progress import Committed, component_states
from grpo_lightning.rollout.reference_file import NAME, read_reference, write_reference
from grpo_lightning.rollout.samples import evaluation_samples, rollout_report
from grpo_lightning.rollout.schedule import Schedule, WorkItem, micro_batches_needed
from grpo_lightning.rollout.scoring import score_parts
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.rollout.warmup import WarmupBatch, warmup_batch, warmup_indices
from grpo_lightning.settings import EvaluationSet
from grpo_lightning.types import Prompt

if TYPE_CHECKING:
    from grpo_lightning.module import GRPOModule


class Session:
    """The working state of one run on one rank.

    Args:
        module: The module of the run.
        data: Its data.
    """

    def __init__(self, module: GRPOModule, data: GRPODataModule) -> None:
        self.module, self.data, self.objective = module, data, module.objective
        self.committed = Committed()
        self.buffer: Buffer | None = None
        self._warmup: WarmupBatch | None = None
        self._warmup_objective: Any = None
        if module.warmup:
            self._warmup_objective = build("auxiliary", module.warmup.loss, "model.warmup.loss")
        self._evaluations: dict[tuple[str, str], tuple[EvaluationMetrics, list[EvaluatedRow]]] = {}
        self._collector = Collector(
            self._play_settings("train"),
            Judging(
                entries=module.rewards,
                advantage=module.advantage,
                transforms=module.transforms,
                selector=module.selector,
                kl=module.kl,
                budget=module.micro_batch_tokens,
            ),
            data.curriculum.draw,
            self._group,
            module.prompts_per_rollout,
        )

    def _play_settings(self, stream: str, **changed: Any) -> PlaySettings:
        module = self.module
        settings: dict[str, Any] = {
            "policy": module.policy,
            "engine": module.engine,
            "environment": module.environment,
            "sampler": module.sampler,
            "members": module.group_size,
            "max_new_tokens": module.generation.max_new_tokens,
            "stop": module.generation.stop,
            "seed": module.seed,
            "stream": stream,
            "recorder": self._record if module.record else None,
        }
        return PlaySettings(**settings | changed)

    def _record(self, request: Any, completions: Any) -> None:
        write_recording(
            run_folder(self.module.trainer) / "recorded", request, completions, self.module.trainer.global_step
        )

    def _group(self, ordinal: int, prompt: tuple[str, int]) -> Group:
        prompts = self.data.train_sets[prompt[0]]
        return Group(ordinal, prompts.prompt(prompt[1]), prompts.encoded(prompt[1]))

    def schedule(self, max_updates: int) -> Schedule:
        """The order of work items; micro-batches of an update are bounded by the longest row there can be."""
        module, environment = self.module, self.module.environment
        longest = max(prompts.longest for prompts in self.data.train_sets.values())
        turns = environment.max_turns
        row = longest + turns * module.generation.max_new_tokens + (turns - 1) * environment.max_observation_tokens
        row = min(row, module.policy.context_length)
        ranks, budget = world.world_size(), module.micro_batch_tokens
        whole = self.objective.loss.scope == "group"
        size, unit = (1, row * module.group_size) if whole else (module.group_size, row)
        needed = micro_batches_needed(module.prompts_per_rollout, size, module.updates_per_rollout, ranks, unit, budget)
        if module.warmup:
            needed = max(needed, worst_case_bins(-(-module.warmup.rows // ranks), row, budget))
        updates = module.epochs_per_rollout * module.updates_per_rollout
        return Schedule(module.warmup.updates if module.warmup else 0, updates, needed, max_updates)

    def start(self, restored: Committed | None) -> None:
        """Before the first work item: rewards load what they need, and a checkpoint's state is taken over."""
        for entry in self.module.rewards:
            entry.reward.setup()
        if restored is None:
            return
        for name, state in restored.components.items():
            self._parts()[name].load_state_dict(state)
        self.committed, self.buffer = restored, restored.buffer
        if restored.reference.get("sha256"):
            paths = [Path(restored.reference["path"]), run_folder(self.module.trainer) / NAME]
            self.module.policy.load_reference(read_reference(paths, restored.reference["sha256"]))

    def _parts(self) -> dict[str, Any]:
        module = self.module
        parts = {
            "curriculum": self.data.curriculum,
            "engine": module.engine,
            "environment": module.environment,
            "sampler": module.sampler,
            "advantage": module.advantage,
            "selector": module.selector,
            "loss": self.objective.loss,
        }
        parts |= {f"transforms.{index}": transform for index, transform in enumerate(module.transforms)}
        return parts | {f"rewards.{entry_name(entry)}": entry.reward for entry in module.rewards}

    def commit(self, in_progress: bool) -> None:
        """An update has ended: what decides what comes next is now what a checkpoint holds."""
        self.committed = Committed(
            component_states(self._parts()), self.buffer if in_progress else None, self.committed.reference
        )

    def open_warmup(self, update: int) -> None:
        """Make the rows of a warm-up update."""
        module = self.module
        assert module.warmup is not None
        rows = [(name, index) for name, prompts in self.data.train_sets.items() for index in range(len(prompts))]

        def prompt(index: int) -> Prompt:
            name, row = rows[index]
            return self.data.train_sets[name].prompt(row)

        self._warmup = warmup_batch(
            self._warmup_objective,
            module.policy,
            prompt,
            warmup_indices(update, module.warmup.rows, len(rows), module.seed),
            module.micro_batch_tokens,
            module.schedule.micro_batches,
        )

    def open_rollout(self, rollout: int) -> RolloutReport:
        """Sample, score and select a rollout, and deal it into updates."""
        module, update = self.module, self.module.trainer.global_step
        if rollout == 0 and self.objective.needs_reference:
            self._freeze_reference()
        self._collector.submit(rollout, update)
        collected = self._collector.wait(rollout)
        self.data.curriculum.observe(collected.prompts, collected.gathered.table)
        self.buffer = fill(collected, self._buffer_settings(), rollout)
        self._score_buffer(collected)
        run_R = run_mask(collected, self.buffer)
        return rollout_report(collected, run_R, rollout, update, module.advantage.compares)

    def _buffer_settings(self) -> BufferSettings:
        module = self.module
        return BufferSettings(
            aggregation=self.objective.aggregation,
            epochs=module.epochs_per_rollout,
            updates=module.updates_per_rollout,
            budget=module.micro_batch_tokens,
            micro_batches=module.schedule.micro_batches,
            whole_groups=self.objective.loss.scope == "group",
            run_all=self.objective.runs_silent_rows,
            mask_truncated=module.generation.mask_truncated,
            seed=module.seed,
        )

    def _score_buffer(self, collected: Collected) -> None:
        """Log-probabilities that the updates need and that do not change while they last."""
        assert self.buffer is not None
        policy, rollouts, parts = self.module.policy, self.buffer.rollouts, self.buffer.parts()
        with collected.timed("score"):
            if len(self.buffer.plans) > 1:
                self.buffer.old_log_probs_S = score_parts(policy, rollouts, parts, "current")
            if self.objective.needs_reference_log_probs:
                self.buffer.reference_log_probs_S = score_parts(policy, rollouts, parts, "reference")

    def _freeze_reference(self) -> None:
        """The policy of now is the reference: written once, and named by its hash in every checkpoint."""
        policy, trainer = self.module.policy, self.module.trainer
        policy.freeze_reference()
        state = policy.reference_state()
        if state is None:
            return
        path = run_folder(trainer) / NAME
        digest = write_reference(path, state) if world.rank() == 0 else ""
        self.committed.reference = {"path": str(path.absolute()), "sha256": world.gather(digest)[0]}

    def micro_batch_loss(self, item: WorkItem, statistics: UpdateStatistics) -> Tensor | None:
        """The loss of a work item, with gradient; ``None`` where its update needs fewer micro-batches."""
        if item.stage == "warmup":
            return self._warmup_loss(item, statistics)
        assert self.buffer is not None
        micro = self.buffer.micro_batch(item.update, item.micro_batch)
        return None if micro is None else self.objective(self.module.policy, micro, statistics)

    def _warmup_loss(self, item: WorkItem, statistics: UpdateStatistics) -> Tensor | None:
        batch = self._warmup
        assert batch is not None
        if item.micro_batch >= len(batch.micro_batches):
            return None
        rows = batch.rollouts.select(batch.micro_batches[item.micro_batch])
        log_probs_S = self.module.policy(rows)["log_prob"]
        loss = self._warmup_objective.terms(log_probs_S).sum() / batch.normaliser
        statistics.count(len(rows), log_probs_S.shape[0])
        statistics.total("warmup/loss", loss)
        return loss  # type: ignore[no-any-return]

    def evaluate(self, batch: EvaluationBatch, kind: str) -> list[EvaluatedRow]:
        """Complete and score some prompts of an evaluation set, and add them to its statistics."""
        module, name, version = self.module, batch.dataset, self.module.trainer.global_step
        settings = (self.data.validation if kind == "validation" else self.data.test)[name]
        prompts = self.data.evaluation_sets[kind, name]
        sampler = build("sampler", settings.sampler, f"data.{kind}.{name}.sampler")
        play_settings = self._play_settings(f"{kind}/{name}", sampler=sampler, members=settings.samples)
        groups = [Group(index, prompts.prompt(index), prompts.encoded(index)) for index in batch.indices]
        rows = evaluate(
            play_settings, module.rewards, groups, batch.indices, version=version, threshold=settings.correct
        )
        metrics, kept = self._evaluation(kind, name, settings)
        metrics.update([row.statistics() for row in rows])
        kept += rows[: max(0, 8 - len(kept))]
        return rows

    def _evaluation(
        self, kind: str, name: str, settings: EvaluationSet
    ) -> tuple[EvaluationMetrics, list[EvaluatedRow]]:
        """The statistics of an evaluation set since its last report, and a few rows to show."""
        if (kind, name) not in self._evaluations:
            components = [entry_name(entry) for entry in self.module.rewards]
            metrics = EvaluationMetrics(k=settings.k or [1], components=components).to(self.module.device)
            self._evaluations[kind, name] = (metrics, [])
        return self._evaluations[kind, name]

    def baseline(self) -> list[EvaluationReport]:
        """Evaluate every validation set before the first rollout, so that a curve has a start; log it at once."""
        trainer, every = self.module.trainer, self.data.validate_every
        step = trainer.global_step
        if not every or (step and step % every == 0):
            return []  # never, or just done
        for loader in self.data.val_dataloader():
            for batch in loader:
                self.evaluate(batch, "validation")
        reports = self.evaluation_reports("validation")
        for logger in trainer.loggers:
            for report in reports:
                metrics = {f"validation/{report.dataset}/{name}": value for name, value in report.metrics.items()}
                logger.log_metrics(metrics, step=step)
        return reports

    def evaluation_reports(self, kind: str) -> list[EvaluationReport]:
        """Reports of the sets evaluated since the last call; a collective."""
        sets = self.data.validation if kind == "validation" else self.data.test
        reports = []
        for name, settings in sets.items():
            metrics, rows = self._evaluation(kind, name, settings)
            del self._evaluations[kind, name]
            size = len(self.data.evaluation_sets[kind, name])
            reports.append(EvaluationReport(name, size, settings.samples, metrics.compute(), evaluation_samples(rows)))
        return reports
