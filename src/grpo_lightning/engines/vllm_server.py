"""One server of vLLM, as an HTTP client sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from grpo_lightning.errors import GRPOError


class ServerError(Exception):
    """A server that is gone, too slow, or gives half an answer: the question may be asked again, here or elsewhere."""


@dataclass(frozen=True)
class Answer:
    """One completion."""

    tokens: list[int]
    log_probs: list[float]
    """Of each token, under the distribution that was really sampled from."""


@dataclass(frozen=True)
class Weights:
    """What a server is to sample with."""

    path: str
    """File of all weights."""
    label: str
    """What the server calls them once it has them; no other run calls any so."""
    adapter: str | None = None
    """Folder of an adapter on top of them."""
    adapter_label: str | None = None


ADAPTER = "grpo-lightning-"
"""How labels of adapters begin."""


class Server:
    """The endpoints of a server that training needs.

    Args:
        url: Its address, such as ``http://localhost:8000``.
        timeout: Seconds that one answer may take.
    """

    def __init__(self, url: str, timeout: float) -> None:
        self.url = url.rstrip("/")
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.Client(base_url=self.url, timeout=httpx.Timeout(timeout, connect=5.0), limits=limits)

    def take(self, weights: Weights) -> None:
        """Let it load the weights that it has not yet: requests in progress are finished first, and its cache of prefixes is
        dropped. An adapter of its own name shares no cache with others.

        Raises:
            ServerError: If it does not answer.
        """
        if str(self._call("GET", "/weight_info")["weight_version"]) != weights.label:
            self._load(weights)
        if weights.adapter is None:
            return
        known = [str(each["id"]) for each in self._call("GET", "/v1/models")["data"]]
        if weights.adapter_label not in known:
            told = {"lora_name": weights.adapter_label, "lora_path": weights.adapter}
            self._call("POST", "/v1/load_lora_adapter", json=told)
        for older in known:
            if older.startswith(ADAPTER) and older != weights.adapter_label:
                self._call("POST", "/v1/unload_lora_adapter", json={"lora_name": older})

    def _load(self, weights: Weights) -> None:
        self._call("POST", "/pause", params={"mode": "wait", "clear_cache": "true"})
        try:
            self._call("POST", "/start_weight_update")
            self._call("POST", "/update_weights", json={"update_info": {"path": weights.path}})
            self._call("POST", "/finish_weight_update", json={"weight_version": weights.label})
        finally:
            self._call("POST", "/resume")

    def generate(self, tokens: Sequence[int], sampling: Mapping[str, Any], weights: Weights) -> list[Answer]:
        """Completions of ``tokens`` by ``weights``, as many as ``sampling["n"]`` says.

        Raises:
            ServerError: If it does not answer, not wholly, or with other weights.
        """
        body: dict[str, Any] = {
            "token_ids": list(tokens),
            "sampling_params": dict(sampling),
            "output_mode": "tokens",
            "model": weights.adapter_label,
        }
        answered = self._call("POST", "/inference/v1/generate", json=body)
        if weights.adapter is not None and answered.get("model") != weights.adapter_label:
            raise ServerError(f"sampled by adapter {answered.get('model')!r} instead of {weights.adapter_label!r}")
        choices = answered.get("choices")
        if not isinstance(choices, list) or len(choices) != sampling["n"]:
            raise ServerError(f"gave {len(choices or [])} completions of {sampling['n']}")
        ordered = sorted(choices, key=lambda choice: int(choice["index"]))
        return [_answer(choice, weights.label) for choice in ordered]

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            response = self._client.request(method, path, **arguments)
            if response.status_code < 500:
                return _read(response)
        except (httpx.HTTPError, ValueError) as error:  # a body that is cut off is no JSON
            raise ServerError(f"{path}: {type(error).__name__}: {error}") from error
        raise ServerError(f"{path}: status {response.status_code}: {response.text[:300]}")

    def close(self) -> None:
        """Let go of its connections."""
        self._client.close()


def _read(response: httpx.Response) -> dict[str, Any]:
    if response.status_code == 404 and "error" in response.text:  # of vLLM itself: it has not the adapter, or no more
        raise ServerError(f"{response.request.url}: {response.text[:300]}")
    if response.status_code == 404:
        raise GRPOError(f"{response.request.url}: this server has no such endpoint; start it with VLLM_SERVER_DEV_MODE=1 and "
                        "--enable-scale-out, and for adapters with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora, or "
                        "set model.engine.adapters: merged")  # fmt: skip
    if response.status_code >= 400:
        raise GRPOError(f"{response.request.url}: refused with status {response.status_code}: {response.text[:500]}")
    if not response.headers.get("content-type", "").startswith("application/json"):
        return {}  # loading an adapter answers with a sentence
    read = response.json()
    if not isinstance(read, dict):
        raise ValueError(f"no object: {response.text[:100]}")
    return read


def _answer(choice: Mapping[str, Any], version: str) -> Answer:
    tokens, content = choice.get("token_ids"), (choice.get("logprobs") or {}).get("content")
    if choice.get("finish_reason") not in ("stop", "length") or not tokens or not content:
        raise ServerError(f"a completion ended with {choice.get('finish_reason')!r} and {len(tokens or [])} tokens")
    if [entry["token_id"] for entry in content] != tokens:
        raise ServerError("log-probabilities of other tokens than those of the completion")
    log_probs = [float(entry["logprob"]) for entry in content]
    if not all(math.isfinite(each) for each in log_probs):
        raise GRPOError("a server gave a log-probability that is not finite: its weights are broken")
    versions = {span["version"] for span in choice.get("weight_versions") or []}
    if versions != {version}:
        raise ServerError(
            f"sampled by weights {', '.join(sorted(versions)) or 'without a version'} instead of {version}"
        )
    return Answer([int(token) for token in tokens], log_probs)
