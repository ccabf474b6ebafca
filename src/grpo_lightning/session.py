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
from grpo_lightning.rollout.reference_file import NAME, read_reference, write_reference
from grpo_lightning.rollout.samples import rollout_report
from grpo_lightning.rollout.schedule import Schedule, WorkItem, micro_batches_needed
from grpo_lightning.rollout.silent import count_silent
from grpo_lightning.rollout.statistics import UpdateStatistics
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
        data = [(name, index) for name, prompts in self.data.train_sets.items() for index in range(len(prompts))]

        def prompt(index: int) -> Prompt:
            name, row = data[index]
            return self.data.train_sets[name].prompt(row)

        source = AuxiliaryRows(prompt, len(data), rows, self.module.seed, stream)
        budget = self.module.micro_batch_tokens
        return AuxiliaryStream(loss, self.module.policy, source, budget=budget, row_tokens=row_tokens)

    def start(self, restored: Committed | None) -> None:
        """Before the first work item: rewards load what they need, and a checkpoint's state is taken over."""
        world.together(self.firewall.start)
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
        adaptive: dict[str, Any] = {"kl": self.objective.kl_controller, "entropy": self.objective.entropy}
        parts |= {name: part for name, part in adaptive.items() if part is not None}
        parts |= {f"transforms.{index}": transform for index, transform in enumerate(module.transforms)}
        return parts | {f"rewards.{entry_name(entry)}": entry.reward for entry in module.rewards}

    def commit(self, report: UpdateReport, in_progress: bool) -> None:
        """An update has ended: what decides what comes next is now what a checkpoint holds."""
        if report.stage == "grpo":
            report.metrics |= self._adapt(report.metrics)
        self.committed = Committed(
            component_states(self._parts()), self.buffer if in_progress else None, self.committed.reference
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
            with profiling.phase(profiling.PREVIEW):
                count_silent(self.buffer, self.buffer.plans[item.update].micro_batches)
                address = (self.module.seed, item.rollout)
                self._preview = self.objective.preview(self.module.policy, self.buffer, item.update, address)

    @profiling.during(profiling.CREDIT)
    def open_rollout(self, rollout: int) -> RolloutReport:
        """Sample, score and select a rollout, and deal it into updates."""
        module, update = self.module, self.module.trainer.global_step
        if rollout == 0 and self.objective.needs_reference:
            self._freeze_reference()
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

    @profiling.during(profiling.FORWARD)
    def micro_batch_loss(self, item: WorkItem, statistics: UpdateStatistics) -> Tensor | None:
        """The loss of a work item, with gradient; ``None`` where its update needs fewer micro-batches."""
        if item.stage == "warmup":
            return self._warmup_loss(item, statistics)
        assert self.buffer is not None
        if item.micro_batch >= self._grpo_micro_batches:
            return self._beside.loss(item.micro_batch - self._grpo_micro_batches, statistics)
        micro = self.buffer.micro_batch(item.update, item.micro_batch, self._preview)
        if micro is None:
            return None
        count_silent(self.buffer, [self.buffer.plans[item.update].micro_batches[item.micro_batch]])
        return self.objective(self.module.policy, micro, statistics, self._beside.left_for_grpo)

    def _warmup_loss(self, item: WorkItem, statistics: UpdateStatistics) -> Tensor | None:
        assert self._warmup is not None
        if (rows := self._warmup.rows_of(item.micro_batch)) is None:
            return None
        loss = self._warmup.value(rows)
        statistics.count(len(rows), int(rows.trainable_S.sum()))
        statistics.total("warmup/loss", loss)
        return loss

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
