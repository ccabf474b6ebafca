"""Where a judge is, and how it is asked."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from grpo_lightning.errors import ConfigError, near_matches, require, require_range

DRY_RUN = "dry-run"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A model behind the OpenAI-compatible protocol (``POST base_url/chat/completions``).

    Rewards of one process with equal settings share one client, and so its limits.

    Args:
        base_url: Address up to and with the version, such as ``http://127.0.0.1:8000/v1``; or ``dry-run``: nothing is
            sent, and verdicts are drawn from a hash of the question. It shows what a configuration would ask and cost.
        model: Name that the server knows the model by.
        api_key_env: Name of the environment variable that holds the key; by default none is read, and the
            word ``none`` is sent.
        temperature: Sampling temperature; null for the server's own.
        seed: Seed of sampling; vote v is asked with ``seed + v``. By default none is sent.
        max_tokens: Tokens that the judge may write; null sends no limit.
        timeout: Seconds that one request may take as a whole.
        retries: Further requests after one that failed with 429, 408, 409, 5xx, a lost connection, the timeout, or a
            body that is no chat completion with a text.
        backoff: Seconds before the first retry, doubled at each further one. A ``Retry-After`` of the server is waited
            for instead, by all requests.
        longest_wait: Most seconds that one wait before a retry may take: longer backoffs are cut to it, and a
            ``Retry-After`` above it is a failure at once.
        requests_per_minute: Requests that may start in any 60 seconds, retries included; null for no limit.
        concurrent_requests: Requests that may run at once.
        reasks: Further questions after an answer that holds no verdict.
        give_up_after: Questions in a row that get no answer, after which the remaining ones of the call are not asked.
        extra: Further fields of the request's body, such as ``{chat_template_kwargs: {enable_thinking: false}}``.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    temperature: float | None = 0.0
    seed: int | None = None
    max_tokens: int | None = 512
    timeout: float = 60.0
    retries: int = 2
    backoff: float = 1.0
    longest_wait: float = 60.0
    requests_per_minute: float | None = None
    concurrent_requests: int = 8
    reasks: int = 1
    give_up_after: int = 16
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.dry_run:
            _require_address(self.base_url)
        require(bool(self.model), "model", self.model, "is empty", "set the name that the server knows the model by")
        if self.api_key_env is not None:
            # The value is not shown: whoever writes a key here must not find it in a log.
            require(self.api_key_env.isidentifier(), "api_key_env", "(not shown)", "is no name of an environment variable",
                    "put the key into a variable, and set the variable's name")  # fmt: skip
        if self.temperature is not None:
            require_range("temperature", self.temperature, low=0, high_open=True)
        if self.max_tokens is not None:
            require_range("max_tokens", self.max_tokens, low=1)
        if self.requests_per_minute is not None:
            require_range("requests_per_minute", self.requests_per_minute, low=1, high_open=True)
        require_range("timeout", self.timeout, low=0, low_open=True, high_open=True)
        require_range("retries", self.retries, low=0)
        require_range("backoff", self.backoff, low=0, high_open=True)
        require_range("longest_wait", self.longest_wait, low=0, high_open=True)
        require_range("concurrent_requests", self.concurrent_requests, low=1)
        require_range("reasks", self.reasks, low=0)
        require_range("give_up_after", self.give_up_after, low=1)
        taken = sorted({"model", "messages", "temperature", "seed", "max_tokens", "stream", "n"} & self.extra.keys())
        require(not taken, "extra", taken, "are fields that the client sends itself", "leave them out of extra")

    @classmethod
    def of(cls, settings: Endpoint | Mapping[str, Any]) -> Endpoint:
        """An endpoint from itself or from its settings by name, whose errors begin with ``judge``.

        Raises:
            ConfigError: If a setting is unknown, missing or cannot be used.
        """
        if isinstance(settings, Endpoint):
            return settings
        known = [each.name for each in fields(cls)]
        for name in settings:
            require(name in known, f"judge.{name}", settings[name], "is no setting", near_matches(str(name), known))
        for name in ("base_url", "model"):
            require(name in settings, f"judge.{name}", None, "is missing", "set it")
        try:
            return cls(**settings)
        except ConfigError as error:
            raise error.under("judge") from None

    @property
    def dry_run(self) -> bool:
        """Whether nothing is sent."""
        return self.base_url == DRY_RUN

    @property
    def identity(self) -> str:
        """A text that is equal for equal settings."""
        return json.dumps(asdict(self), sort_keys=True, default=str)

    def key(self) -> str:
        """The key, read now.

        Raises:
            ConfigError: If the variable is not set.
        """
        if self.api_key_env is None:
            # Never the client's own default: it would send the key of OPENAI_API_KEY to any address.
            return "none"
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise ConfigError("api_key_env", self.api_key_env, "is not set in the environment",
                              f"export {self.api_key_env}=...")  # fmt: skip
        return key


def _require_address(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        usable, secret = parts.scheme in ("http", "https") and bool(parts.hostname), parts.password or parts.username
    except ValueError:
        usable, secret = False, None
    if secret:
        raise ConfigError("base_url", "(not shown)", "holds a user or a password", "set api_key_env instead")
    require(usable, "base_url", base_url, "is no address", "set one such as http://127.0.0.1:8000/v1")
