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
failure means are fields of the entry around a reward (``entry.py``). ``composer.py`` makes one number of many scores.

Rewards are called by ``firewall.py``: ``calls.py`` cuts rows into calls, a ``lane.py`` runs so many at once with retries and
``cache.py``, each in a place: ``threads.py``, ``event_loop.py`` or ``workers.py`` (whose other side are ``worker.py`` and
``serving.py``). ``scores.py`` reads what they returned, ``failures.py`` says what a failure means.
"""
