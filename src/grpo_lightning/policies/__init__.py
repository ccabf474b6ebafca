"""Policies: what is trained.

To add one: a file with a subclass of :class:`~grpo_lightning.policies.base.Policy` that has a ``name``, returned from the hook
``grpo_register_policy`` (built-ins: ``grpo_lightning/builtins.py``). Its ``forward`` returns log-probabilities and functionals
of trainable steps, never logits; what a step is stays inside this folder and the engines.
"""
