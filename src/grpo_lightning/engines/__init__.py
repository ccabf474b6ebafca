"""Engines: who generates.

To add one: a file with a subclass of :class:`~grpo_lightning.engines.base.Engine` that has a ``name`` and says whether it is
``addressed`` and ``deterministic``, returned from the hook ``grpo_register_engine``. It returns token ids, the
log-probabilities that were really sampled from, finish reasons and supports; never text.
"""
