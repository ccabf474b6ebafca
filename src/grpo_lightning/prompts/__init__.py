"""Prompt sources: where prompts come from.

To add one: a file with a subclass of :class:`~grpo_lightning.prompts.base.PromptSource` that has a ``name``, reads in
``load`` (the constructor only keeps settings), and gives rows by index: ``prompt``, as text or as chat messages, and
further columns, which rewards get by name. It raises :class:`~grpo_lightning.errors.DataError` for every fault that it
can find before a model loads. Return the class from ``grpo_register_prompts`` and test it in ``tests/unit/prompts``.

Rows of files and of hub data sets are kept by ``table.py``; a source that makes up its questions derives from
``procedural.py``, which holds training and held-out questions apart.
"""
