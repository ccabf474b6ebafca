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

    def healthy(self) -> bool:
        """Whether it answers."""
        try:
            return self._client.get("/health", timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    def version(self) -> str:
        """The label of the weights that it has.

        Raises:
            ServerError: If it does not answer.
        """
        return str(self._call("GET", "/weight_info")["weight_version"])

    def take(self, path: str, version: str) -> None:
        """Let it load the weights in a file: requests in progress are finished first, its cache of prefixes is dropped, and
        its weights are called ``version`` from then on.

        Raises:
            ServerError: If it does not answer.
        """
        self._call("POST", "/pause", params={"mode": "wait", "clear_cache": "true"})
        try:
            self._call("POST", "/start_weight_update")
            self._call("POST", "/update_weights", json={"update_info": {"path": path}})
            self._call("POST", "/finish_weight_update", json={"weight_version": version})
        finally:
            self._call("POST", "/resume")

    def generate(self, tokens: Sequence[int], sampling: Mapping[str, Any], version: str) -> list[Answer]:
        """Completions of ``tokens`` by the weights called ``version``, as many as ``sampling["n"]`` says.

        Raises:
            ServerError: If it does not answer, not wholly, or with other weights.
        """
        body = {"token_ids": list(tokens), "sampling_params": dict(sampling), "output_mode": "tokens"}
        choices = self._call("POST", "/inference/v1/generate", json=body).get("choices")
        if not isinstance(choices, list) or len(choices) != sampling["n"]:
            raise ServerError(f"gave {len(choices or [])} completions of {sampling['n']}")
        ordered = sorted(choices, key=lambda choice: int(choice["index"]))
        return [_answer(choice, version) for choice in ordered]

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
    if response.status_code == 404:
        raise GRPOError(f"{response.request.url}: this server has no such endpoint; start it with VLLM_SERVER_DEV_MODE=1 and "
                        "--enable-scale-out")  # fmt: skip
    if response.status_code >= 400:
        raise GRPOError(f"{response.request.url}: refused with status {response.status_code}: {response.text[:500]}")
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
