"""Mathematics of tensors: no Lightning, no configuration, no devices.

One file per idea. A function here takes tensors with the shape suffixes of :mod:`grpo_lightning.types`, returns tensors,
draws no random numbers from a global generator and keeps no state. To add one more: a new file, a slow float64 twin in
``tests/unit/functional``, and nothing else.
"""
