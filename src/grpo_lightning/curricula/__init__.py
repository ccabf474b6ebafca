"""Curricula: which prompts come next.

To add one: a file with a subclass of :class:`~grpo_lightning.curricula.base.Curriculum` that has a ``name`` and a
method ``draw``. Every rank draws the same, so a draw is a function of the state and of addressed randomness
(``grpo_lightning.functional.seeding``), and drawing 3 and then 5 gives what drawing 8 gives. All that decides the next
draw is in ``state_dict``. One that learns which prompts are hard overrides ``observe``. Return the class from
``grpo_register_curriculum`` and test it in ``tests/unit/curricula``.
"""
