"""Auxiliary losses: what is trained before GRPO, or beside it.

To add one: a file with a subclass of :class:`~grpo_lightning.auxiliary.base.AuxiliaryLoss` that has a ``name``, returned from
the hook ``grpo_register_auxiliary``. It makes rows of its own, has a normaliser of its own, and its terms are summed.
"""
