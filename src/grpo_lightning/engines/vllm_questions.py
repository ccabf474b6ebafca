"""What is asked of a server of vLLM for a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grpo_lightning.engines.base import GenerationRequest
from grpo_lightning.errors import ConfigError
from grpo_lightning.functional.seeding import address_hash


@dataclass(frozen=True)
class Order:
    """Rows of one context and one limit: one question."""

    rows: list[int]
    tokens: list[int]
    sampling: dict[str, Any]


def orders(request: GenerationRequest) -> list[Order]:
    """One for all rows that have a context and a limit in common: the server computes their context once."""
    together: dict[tuple[int, int], list[int]] = {}
    for row, (context, limit) in enumerate(zip(request.context_Q.tolist(), request.limit_Q.tolist(), strict=True)):
        together.setdefault((context, limit), []).append(row)
    contexts, shared = request.contexts.tolist(), sampling_parameters(request)
    seeds = (address_hash(request.seed, request.stream, request.address_QA) >> 2).tolist()
    return [
        Order(rows, contexts[context], shared | {"n": len(rows), "max_tokens": limit, "seed": int(seeds[rows[0]])})
        for (context, limit), rows in together.items()
    ]


def sampling_parameters(request: GenerationRequest) -> dict[str, Any]:
    """The distribution and the stops of a request in vLLM's words.

    Raises:
        ConfigError: If the sampler leaves tokens out: which ones, vLLM does not tell, and log-probabilities of training would
            be those of another distribution.
    """
    given = request.sampler.generate_arguments()
    left_out = given.get("top_k") or given.get("min_p") or given.get("top_p", 1.0) != 1.0
    if given["do_sample"] and left_out:
        raise ConfigError("model.sampler", request.sampler.name, "leaves tokens out, and vLLM does not tell which",
                          "sample with temperature alone, or generate with decode_loop")  # fmt: skip
    return {
        "temperature": given["temperature"] if given["do_sample"] else 0.0,
        "logprobs": 0,
        "ignore_eos": True,  # stop ids are all named
        "stop_token_ids": sorted(request.stop_ids),
        "stop": list(request.stop_strings),
        "include_stop_str_in_output": True,
        "detokenize": bool(request.stop_strings),
        "skip_special_tokens": False,
    }
