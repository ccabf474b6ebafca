"""Environments: what happens between turns.

To add one: a file with a subclass of :class:`~grpo_lightning.environments.base.Environment` that has a ``name`` and a
method ``step``, which gets every episode still running and answers the turn just written: text to show before the next
turn, or ``None`` to end the episode, and a reward of the turn if there is one (the reward ``environment`` hands it
on). Set ``max_turns`` and ``max_observation_tokens`` in the constructor. Return the class from
``grpo_register_environment`` and test it in ``tests/unit/environments``. Nothing random: answers that differ between
the members of a group must be a function of ``episode.group`` and ``episode.member``.
"""
