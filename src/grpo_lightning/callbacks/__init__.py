"""What is shown of a run.

A callback reads what the training step hands out, and nothing private. :mod:`grpo_lightning.reports` says what that is:
``outputs["evaluation"]`` (before the first rollout), ``outputs["rollout"]`` and ``outputs["update"]`` in
``on_train_batch_end``, and ``pl_module.evaluation_reports`` after an evaluation.
:class:`~grpo_lightning.callbacks.base.ReportCallback` does the reading. To add one more, write a new file with

    class BestReward(ReportCallback):
        \"\"\"Remembers the best mean reward of a rollout.\"\"\"

        name = "best_reward"

        def __init__(self) -> None:
            self.best = float("-inf")

        @override
        def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
            self.best = max(self.best, rollout_metrics(report).get("reward/mean", self.best))

a line in ``builtins.py`` (or a ``grpo_register_callback`` hook of a plugin), and a test in ``tests/unit/callbacks``. A
new logged key also needs its row in ``docs/metrics.md``. Nothing may fail without loggers, and only rank zero writes.
"""
