"""What the benchmarks share.

=============== =====================================================================
``machine``     the machine, its threads, its speed at products of matrices
``memory``      resident memory of this process and its peak
``workload``    prompts of an exact length, lengths of completions, rewards, the model
``protocol``    how a benchmark talks to its worker processes
``peers``       environments of the systems that are compared with
``pairs``       alternating measurements, medians and spread
``operations``  floating point operations and tokens, counted from a model's shape
``fitting``     exponents of growth
``results``     result files
``tables``      the tables of docs/performance.md
``options``     arguments of every script
=============== =====================================================================

``workload``, ``protocol``, ``memory`` and ``machine`` also run inside the environments of peers, so they import nothing of
this library, and torch only where it is used.
"""
