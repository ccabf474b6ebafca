from __future__ import annotations

import asyncio
import math
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from faulty_server import Fault, FaultyServer, body, cut, drip, hang, says, status
from grpo_lightning_judge import Endpoint, JudgeError, JudgeScore
from grpo_lightning_judge.connection import retry_after

Start = Callable[..., FaultyServer]
GOOD = says('{"score": 8}')


def reward_at(base_url: str, **settings: Any) -> JudgeScore:
    defaults: dict[str, Any] = {"timeout": 0.5, "retries": 1, "backoff": 0.05, "reasks": 1}
    return JudgeScore(judge=Endpoint(**{"base_url": base_url, "model": "m", **defaults, **settings}))


def score(reward: JudgeScore, completions: list[str]) -> list[Any]:
    prompts = ["p"] * len(completions)
    return list(asyncio.run(reward.score(prompts=prompts, completions=completions)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(429, retry_after="0.2"), "rate_limited"),
        (status(429), "rate_limited"),
        (status(500), "server_error"),
        (status(503), "server_error"),
        (status(408), "server_error"),
        (cut, "connection"),
        (hang, "timeout"),
        (drip, "timeout"),
        (body(b'{"choices": ['), "malformed_body"),
        (body(b""), "malformed_body"),
        (body(b"\xff\xfe{"), "malformed_body"),
        (body(b"<html>busy</html>", content_type="text/html"), "malformed_body"),
        (body(b"null"), "malformed_body"),
        (body(b"[1, 2]"), "malformed_body"),
        (body(b'{"choices": 5}'), "malformed_body"),
        (body(b'{"choices": {"0": 1}}'), "malformed_body"),
        (body(b'{"choices": [{"message": {"content": 7}}]}'), "malformed_body"),
        (body(b'{"choices": [{"message": {"content": ["8"]}}]}'), "malformed_body"),
        (body(b'{"choices": []}'), "no_answer"),
        (body(b'{"choices": ["8"]}'), "no_answer"),
        (body(b'{"choices": [{"message": null}]}'), "no_answer"),
        (body(b'{"choices": [{"message": {"content": null}}]}'), "no_answer"),
        (says("  "), "no_answer"),
    ],
)
def test_a_passing_fault_is_tried_again_and_a_lasting_one_is_named(faulty: Start, fault: Fault, kind: str) -> None:
    start = time.monotonic()
    once = reward_at(faulty(fault, GOOD).base_url)
    assert score(once, ["x"]) == [0.8]
    assert (once.counts["requests"], once.counts["retries"], once.counts[kind]) == (2, 1, 1)
    assert "unanswered" not in once.counts
    always = reward_at(faulty(fault).base_url)
    with pytest.raises(JudgeError) as error:
        score(always, ["x"])
    assert error.value.kind == kind
    assert (always.counts["requests"], always.counts[kind], always.counts["unanswered"]) == (2, 2, 1)
    assert time.monotonic() - start < 4.0


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (status(400), "refused"),
        (status(401), "refused"),
        (status(404), "refused"),
        (status(429, error_code="insufficient_quota"), "quota"),
        (status(429, retry_after="7200"), "quota"),
        (status(429, retry_after="Fri, 31 Dec 2100 23:59:59 GMT"), "quota"),
    ],
)
def test_a_fault_that_waiting_does_not_mend_is_not_tried_again(faulty: Start, fault: Fault, kind: str) -> None:
    reward = reward_at(faulty(fault, GOOD).base_url, retries=5)
    with pytest.raises(JudgeError) as error:
        score(reward, ["x"])
    assert error.value.kind == kind
    assert reward.counts["requests"] == 1


def test_retry_after_is_waited_for_by_every_request(faulty: Start) -> None:
    server = faulty(status(429, retry_after="0.6"), GOOD)
    reward = reward_at(server.base_url, concurrent_requests=1)
    assert score(reward, ["x", "y", "z"]) == [0.8] * 3
    assert server.starts[1] - server.starts[0] >= 0.6
    assert len(server.starts) == 4


def test_retry_after_as_number_and_date() -> None:
    assert retry_after({"retry-after": "1.5"}) == 1.5
    assert retry_after({"retry-after": "-3"}) == 0.0
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "nan"}) is None
    assert retry_after({}) is None


def test_backoff_doubles_and_is_cut(faulty: Start) -> None:
    server = faulty(status(500), status(500), status(500), GOOD)
    assert score(reward_at(server.base_url, retries=3, backoff=0.2, longest_wait=0.3), ["x"]) == [0.8]
    waits = [later - earlier for earlier, later in zip(server.starts, server.starts[1:], strict=False)]
    assert [round(wait, 1) for wait in waits] == [pytest.approx(0.2, abs=0.11), pytest.approx(0.3, abs=0.11),
                                                  pytest.approx(0.3, abs=0.11)]  # fmt: skip
    assert min(waits) >= 0.2


def test_an_answer_without_a_verdict_is_asked_about_again(faulty: Start) -> None:
    server = faulty(says("It is good."), GOOD)
    reward = reward_at(server.base_url)
    assert score(reward, ["x"]) == [0.8]
    assert reward.counts["reasks"] == reward.counts["no_verdict"] == 1
    assert [message["role"] for message in server.bodies[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert server.bodies[1]["messages"][2]["content"] == "It is good."
    assert "no verdict" in server.bodies[1]["messages"][3]["content"]


@pytest.mark.parametrize("reasks", [0, 2])
def test_answers_that_never_hold_a_verdict(faulty: Start, reasks: int) -> None:
    reward = reward_at(faulty(says("It is good.")).base_url, reasks=reasks)
    with pytest.raises(JudgeError, match=f"asked {reasks + 1} times") as error:
        score(reward, ["x"])
    assert error.value.kind == "no_verdict"
    assert reward.counts["requests"] == reasks + 1


def test_one_row_without_a_verdict_does_not_lose_the_others(faulty: Start) -> None:
    plan = (GOOD, says("?"), GOOD)
    for unjudged in ("fail", "abstain", "raise"):
        endpoint = Endpoint(base_url=faulty(*plan).base_url, model="m", reasks=0, concurrent_requests=1)
        reward = JudgeScore(judge=endpoint, unjudged=unjudged)  # type: ignore[arg-type]
        if unjudged == "raise":
            with pytest.raises(JudgeError, match="no_verdict"):
                score(reward, ["x", "y", "z"])
            continue
        first, second, third = score(reward, ["x", "y", "z"])
        assert (first, third) == (0.8, 0.8)
        assert second is None if unjudged == "abstain" else math.isnan(second)


def test_a_server_that_is_not_there_ends_in_bounded_time() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        start = time.monotonic()
        reward = reward_at(url, retries=2, backoff=0.1)
        with pytest.raises(JudgeError) as error:
            score(reward, [str(number) for number in range(100)])
        assert error.value.kind == "connection"
        assert time.monotonic() - start < 8.0


def test_after_some_unanswered_questions_the_rest_are_not_asked(faulty: Start) -> None:
    server = faulty(hang)
    reward = reward_at(server.base_url, timeout=0.2, retries=0, concurrent_requests=4, give_up_after=6)
    start = time.monotonic()
    with pytest.raises(JudgeError):
        score(reward, [str(number) for number in range(200)])
    assert reward.counts["requests"] <= 6 + 4
    assert reward.counts["gave_up"] == 200 - reward.counts["requests"]
    assert time.monotonic() - start < 4.0


def test_giving_up_does_not_wait_for_the_rate_limit(faulty: Start) -> None:
    server = faulty(status(401))
    reward = reward_at(server.base_url, requests_per_minute=20, give_up_after=3, concurrent_requests=2)
    start = time.monotonic()
    with pytest.raises(JudgeError):
        score(reward, [str(number) for number in range(100)])
    assert time.monotonic() - start < 3.0


def test_what_is_sent(faulty: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-server")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another-server")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/wrong")
    server = faulty(GOOD)
    endpoint = Endpoint(base_url=server.base_url, model="m", temperature=0.7, seed=5, max_tokens=99, extra={"top_k": 3})
    score(JudgeScore(judge=endpoint, votes=2), ["x"])
    assert sorted(sent["seed"] for sent in server.bodies) == [5, 6]
    sent = server.bodies[0]
    assert {key: sent[key] for key in ("model", "temperature", "max_tokens", "top_k")} == {
        "model": "m", "temperature": 0.7, "max_tokens": 99, "top_k": 3,
    }  # fmt: skip
    assert server.headers[0]["authorization"] == "Bearer none"
    assert "another-server" not in str(server.headers)


def test_the_key_goes_to_the_server_and_nowhere_else(
    faulty: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-verysecret")
    server = faulty(status(401, "wrong key sk-verysecret given"))
    reward = reward_at(server.base_url, api_key_env="MY_JUDGE_KEY")
    reward.setup()
    with caplog.at_level("DEBUG"), pytest.raises(JudgeError, match="wrong key \\*\\*\\* given") as error:
        score(reward, ["x"])
    assert server.headers[0]["authorization"] == "Bearer sk-verysecret"
    assert "verysecret" not in caplog.text
    assert "verysecret" not in str(error.value)
    assert error.value.__cause__ is None
    assert "verysecret" not in str(server.bodies)
