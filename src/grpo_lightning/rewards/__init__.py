"""Rewards: how good a completion is.

To add one: a file here (or in a package of your own) with a subclass of
:class:`~grpo_lightning.rewards.base.Reward` that has a ``name`` and a method ``score``, whose argument names say
what it needs::

    class Polite(Reward):
        \"\"\"1 for each completion that says please.\"\"\"

        name = "polite"

        def score(self, *, completions: Sequence[str]) -> list[float]:
            return [float("please" in completion) for completion in completions]

Return it from ``grpo_register_reward`` (here: in ``builtins.py``) and test it in ``tests/unit/rewards``. A plain
function of the same arguments needs none of this: its import path is enough. Weights, gates, routing and what a
failure means are fields of the entry around a reward (``entry.py``); ``runner.py`` calls rewards, ``composer.py``
makes one number of their scores.
"""
