"""What a module does during a run: filling buffers, computing losses, committing state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from grpo_lightning import profiling
from grpo_lightning.auxiliary.base import AuxiliaryLoss
from grpo_lightning.callbacks.run_files import run_folder
from grpo_lightning.data.datamodule import GRPODataModule
from grpo_lightning.engines.recording import write_recording
from grpo_lightning.evaluations import Evaluations
from grpo_lightning.registry import build
from grpo_lightning.reports import RolloutReport, UpdateReport
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rollout import world
from grpo_lightning.rollout.auxiliary import AuxiliaryRows, AuxiliaryStream, AuxiliaryStreams
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, Preview, fill, run_mask
from grpo_lightning.rollout.buffer_scores import score_buffer
from grpo_lightning.rollout.collector import Collected, Collector
from grpo_lightning.rollout.judging import Judging
from grpo_lightning.rollout.play import Group, PlaySettings
from grpo_lightning.rollout.progress import Committed, component_states
from grpo_lightning.rollout.reference_file import NAME, freeze_reference, read_reference
from grpo_lightning.rollout.refresh import refresh_engine
from grpo_lightning.rollout.samples import rollout_report
from grpo_lightning.rollout.schedule import Schedule, WorkItem, micro_batches_needed
from grpo_lightning.rollout.silent import count_silent
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.row_length import longest_row
from grpo_lightning.strategies.sharding import idle_pass, is_sharded, whole

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
        self._preview: Preview | None = None
        self._warmup: AuxiliaryStream | None = None
        self._beside = AuxiliaryStreams({}, {})
        self._grpo_micro_batches = 0
        self.firewall = Firewall(module.rewards)
        self.evaluations = Evaluations(module, data, self._play_settings, self.firewall)
        self._collector = Collector(
            self._play_settings("train"),
            Judging(
                firewall=self.firewall,
                advantage=module.advantage,
                transforms=module.transforms,
                selector=module.selector,
                kl=module.kl,
                budget=module.micro_batch_tokens,
                kl_weight=self.objective.kl_weight,
            ),
            data.curriculum.draw,
            self._group,
            module.prompts_per_rollout,
            self._greedy_settings() if module.advantage.greedy else None,
        )

    def _greedy_settings(self) -> PlaySettings:
        sampler = build("sampler", "greedy", "model.sampler")
        return self._play_settings("train/greedy", sampler=sampler, members=1)

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
        write_recording(run_folder(self.module.trainer) / "recorded", request, completions, request.version)

    def _group(self, ordinal: int, prompt: tuple[str, int]) -> Group:
        prompts = self.data.train_sets[prompt[0]]
        return Group(ordinal, prompts.prompt(prompt[1]), prompts.encoded(prompt[1]))

    def schedule(self, max_updates: int) -> Schedule:
        """The order of work items; micro-batches of an update are bounded by the longest row there can be."""
        module = self.module
        row = longest_row(module, self.data)
        ranks, budget = world.world_size(), module.micro_batch_tokens
        whole = self.objective.loss.scope == "group"
        size, unit = (1, row * module.group_size) if whole else (module.group_size, row)
        needed = micro_batches_needed(module.prompts_per_rollout, size, module.updates_per_rollout, ranks, unit, budget)
        self._grpo_micro_batches = needed
        self._beside = AuxiliaryStreams(
            module.auxiliary,
            {
                name: self._stream(term.loss, term.rows, f"auxiliary/{name}", row)
                for name, term in module.auxiliary.items()
            },
        )
        needed += self._beside.micro_batches
        if module.warmup:
            loss = build("auxiliary", module.warmup.loss, "model.warmup.loss")
            self._warmup = self._stream(loss, module.warmup.rows, "warmup", row)
            needed = max(needed, self._warmup.micro_batches)
        updates = module.epochs_per_rollout * module.updates_per_rollout
        return Schedule(module.warmup.updates if module.warmup else 0, updates, needed, max_updates)

    def configure_loop(self, schedule: Schedule) -> None:
        """Tell Lightning how many items an update has, and when it validates."""
        trainer, data = self.module.trainer, self.data
        trainer.accumulate_grad_batches = schedule.micro_batches
        if data.validate_every and data.validation:
            trainer.val_check_interval = data.validate_every * schedule.micro_batches
            trainer.check_val_every_n_epoch = None

    def _stream(self, loss: AuxiliaryLoss, rows: int, stream: str, row_tokens: int) -> AuxiliaryStream:
        source = AuxiliaryRows.of(list(self.data.train_sets.values()), rows, self.module.seed, stream)
        budget = self.module.micro_batch_tokens
        return AuxiliaryStream(loss, self.module.policy, source, budget=budget, row_tokens=row_tokens)

    def start(self, restored: Committed | None) -> None:
        """Before the first work item: rewards load what they need, and a checkpoint's state is taken over."""
        world.together(self.firewall.start)
        if restored is None:
            return
        for name, state in restored.components.items():
            self._parts()[name].load_state_dict(state)
        restored.deal(self._buffer_settings(), self._group, self.module.policy)
        self.committed, self.buffer, self._collector.submitted = restored, restored.buffer, restored.submitted
        if restored.reference.get("sha256"):
            paths = [Path(restored.reference["path"]), run_folder(self.module.trainer) / NAME]
            self.module.policy.load_reference(read_reference(paths, restored.reference["sha256"]))
        self.evaluations.catch_up(restored.evaluated)

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
        adaptive: dict[str, Any] = {"kl": self.objective.kl_controller, "entropy": self.objective.entropy}
        parts |= {name: part for name, part in adaptive.items() if part is not None}
        parts |= {f"transforms.{index}": transform for index, transform in enumerate(module.transforms)}
        return parts | {f"rewards.{entry_name(entry)}": entry.reward for entry in module.rewards}

    def commit(self, report: UpdateReport, in_progress: bool) -> None:
        """An update has ended: what decides what comes next is now what a checkpoint holds."""
        if report.stage == "grpo":
            report.metrics |= self._adapt(report.metrics)
        self.committed = Committed(
            component_states(self._parts()),
            self.buffer if in_progress else None,
            submitted=self._collector.submitted,
            reference=self.committed.reference,
            evaluated=self.committed.evaluated,
        )

    def open_update(self, item: WorkItem) -> None:
        """Before the first micro-batch of an update: make the rows of auxiliary losses, and look at the whole of it."""
        if item.stage == "warmup":
            assert self._warmup is not None
            with profiling.phase(profiling.AUXILIARY_ROWS):
                self._warmup.open(item.rollout)
            return
        assert self.buffer is not None
        with profiling.phase(profiling.AUXILIARY_ROWS):
            self._beside.open(item.rollout * len(self.buffer.plans) + item.update)
        if self.objective.needs_preview:
            with profiling.phase(profiling.PREVIEW), whole(self.module.policy):
                count_silent(self.buffer, self.buffer.plans[item.update].micro_batches)
                address = (self.module.seed, item.rollout)
                self._preview = self.objective.preview(self.module.policy, self.buffer, item.update, address)

    @profiling.during(profiling.CREDIT)
    def open_rollout(self, rollout: int) -> RolloutReport:
        """Sample, score and select a rollout, and deal it into updates."""
        if rollout == 0 and self.objective.needs_reference:
            path = run_folder(self.module.trainer) / NAME
            self.committed.reference = freeze_reference(self.module.policy, path)
        with whole(self.module.policy):
            refresh_engine(self.module)
            report = self._fill_buffer(rollout)
        if self.module.generation.rollouts_ahead and not self.module.schedule.is_last_rollout(rollout):
            self._collector.submit(rollout + 1, self.module.trainer.global_step, ahead=True)
        return report

    def settle(self) -> None:
        """See :meth:`Collector.settle`."""
        self._collector.settle()

    def _fill_buffer(self, rollout: int) -> RolloutReport:
        module, update = self.module, self.module.trainer.global_step
        self._collector.submit(rollout, update)
        collected = self._collector.wait(rollout)
        with collected.timed("collect"):
            self.data.curriculum.observe(collected.prompts, collected.gathered.table)
            self._adapt_kl(collected)
            self.buffer = fill(collected, self._buffer_settings(), rollout, update)
            with collected.timed("score"):
                score_buffer(module.policy, self.buffer, reference=self.objective.needs_reference_log_probs)
        run_R = run_mask(collected, self.buffer)
        return rollout_report(collected, run_R, rollout, update, module.advantage.compares)

    def _buffer_settings(self) -> BufferSettings:
        module = self.module
        return BufferSettings(
            aggregation=self.objective.aggregation,
            epochs=module.epochs_per_rollout,
            updates=module.updates_per_rollout,
            budget=module.micro_batch_tokens,
            micro_batches=self._grpo_micro_batches,
            whole_groups=self.objective.loss.scope == "group",
            run_all=self.objective.runs_silent_rows,
            mask_truncated=module.generation.mask_truncated,
            seed=module.seed,
            shares_prompts=module.policy.shares_prompts,
        )

    @profiling.during(profiling.FORWARD)
    def micro_batch_loss(self, item: WorkItem, statistics: UpdateStatistics) -> Tensor | None:
        """The loss of a work item, with gradient; ``None`` where its update needs fewer micro-batches."""
        policy = self.module.policy
        if is_sharded(policy):  # a pass is one of all processes
            has_work = self._has_work(item)
            if not any(world.gather(has_work)):
                return None
            if not has_work:
                return idle_pass(policy, self.objective.functionals)
        return self._loss(item, statistics)

    def _has_work(self, item: WorkItem) -> bool:
        """Whether this rank has rows in the micro-batch of a work item."""
        if item.stage == "warmup":
            return self._warmup is not None and self._warmup.rows_of(item.micro_batch) is not None
        if item.micro_batch >= self._grpo_micro_batches:
            return self._beside.has_rows(item.micro_batch - self._grpo_micro_batches)
        return self.buffer is not None and item.micro_batch < len(self.buffer.plans[item.update].micro_batches)

    def _loss(self, item: WorkItem, statistics: UpdateStatistics) -> Tensor | None:
        if item.stage == "warmup":
            assert self._warmup is not None
            return self._warmup.warmup_loss(item.micro_batch, statistics)
        assert self.buffer is not None
        if item.micro_batch >= self._grpo_micro_batches:
            return self._beside.loss(item.micro_batch - self._grpo_micro_batches, statistics)
        micro = self.buffer.micro_batch(item.update, item.micro_batch, self._preview)
        if micro is None:
            return None
        count_silent(self.buffer, [self.buffer.plans[item.update].micro_batches[item.micro_batch]])
        return self.objective(self.module.policy, micro, statistics, self._beside.left_for_grpo)

    def _adapt_kl(self, collected: Collected) -> None:
        """Move the coefficient of a KL in the reward by what the rollout has paid."""
        controller = self.objective.kl_controller
        if controller is not None and collected.kl_R is not None:
            sums = world.gather((float(collected.kl_R.sum()), len(collected.kl_R)))
            rows = sum(each[1] for each in sums)
            controller.update(sum(each[0] for each in sums) / rows, rows)

    def _adapt(self, metrics: dict[str, float]) -> dict[str, float]:
        """An update of GRPO has ended: move the coefficients that have a target, and tell those that it had."""
        told = self._beside.metrics()
        objective = self.objective
        if objective.kl_controller is not None:
            told["train/kl_weight"] = objective.kl_weight()
            if objective.kl_in_loss and metrics.get("perf/rows_run"):
                rows = metrics["perf/rows_run"]
                objective.kl_controller.update(metrics["policy/kl"] * metrics["perf/steps_run"] / rows, round(rows))
        if objective.entropy is not None:
            told["train/entropy_weight"] = objective.entropy.coefficient
            if "policy/entropy" in metrics:
                objective.entropy.observe(metrics["policy/entropy"])
        return told
