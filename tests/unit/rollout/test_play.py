"""Episodes of one and two turns: tokens in, tokens out, and what is masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.environments.scripted import Scripted
from grpo_lightning.environments.single_turn import SingleTurn
from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.base import Policy
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.play import Group, PlaySettings, play
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_k import TopK
from grpo_lightning.types import Episode, FinishReason, Prompt, Rollouts
from helpers.chat import CHAT_VOCABULARY, END, START, chat_tokenizer
from helpers.tiny_policy import EOS, load_policy, row_distributions, save_model, small_llama, text_prompt, tiny_policy


class Written(Engine):
    """Writes what it is told to, row by row: (tokens, finish) of each request in turn."""

    name = "test_written"
    addressed = True
    deterministic = True

    def __init__(self, turns: Sequence[Sequence[tuple[Sequence[int], FinishReason]]]) -> None:
        self.turns, self.requests = list(turns), list[GenerationRequest]()

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        self.requests.append(request)
        writer = RowWriter(request.limit_Q.shape[0])
        for row, (tokens, finish) in enumerate(self.turns[len(self.requests) - 1]):
            for token in tokens:
                writer.write(row, token, -0.5, None)
            writer.end(row, finish)
        return writer.finish()


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    return tiny_policy()


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    config = small_llama(vocab_size=CHAT_VOCABULARY, eos_token_id=END)
    return load_policy(save_model(tmp_path_factory.mktemp("chat"), config, tokenizer=chat_tokenizer()))


def settings_of(policy: Policy, **changed: Any) -> PlaySettings:
    settings = PlaySettings(
        policy=policy,
        engine=DecodeLoop(),
        environment=SingleTurn(),
        sampler=Temperature(),
        members=3,
        max_new_tokens=8,
        stop=(),
        seed=0,
        stream="train",
    )
    return replace(settings, **changed)


def groups_of(policy: Policy, prompts: Sequence[Prompt], first: int = 0) -> list[Group]:
    return [Group(first + index, prompt, policy.encode(prompt)) for index, prompt in enumerate(prompts)]


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


def test_one_turn(policy: CausalLM) -> None:
    groups = groups_of(policy, [text_prompt("7+8="), text_prompt("a longer one ", 5)], first=4)
    rollouts, episodes = play(settings_of(policy), groups, rollout=2, attempt=1, version=9)
    assert rollouts.prompts.tolist() == [group.tokens.tolist() for group in groups]
    assert rollouts.prompt_R.tolist() == [0, 0, 0, 1, 1, 1]
    assert rollouts.group_R.tolist() == [4, 4, 4, 5, 5, 5]
    assert rollouts.member_R.tolist() == [0, 1, 2, 0, 1, 2]
    assert rollouts.trajectory_R.tolist() == [12, 13, 14, 15, 16, 17]
    assert rollouts.attempt_R.tolist() == [1] * 6
    assert rollouts.version_R.tolist() == [9] * 6
    assert rollouts.temperature_R.tolist() == [1.0] * 6
    assert bool(rollouts.trainable_S.all())
    assert not bool(rollouts.turn_S.any())
    assert rollouts.support is None
    for row, (episode, actions) in enumerate(zip(episodes, rollouts.actions.tolist(), strict=True)):
        assert (episode.group, episode.member) == (4 + row // 3, row % 3)
        assert [turn.token_ids for turn in episode.turns] == [actions]
        assert episode.completion == policy.decode(actions)
        assert episode.finish == FinishReason(int(rollouts.finish_R[row]))
        steps = rollouts.behaviour_log_probs_S[rollouts.row_S == row].tolist()
        assert episode.log_probs == pytest.approx(steps, abs=0)


def test_draws_are_addressed_by_rollout_attempt_and_group(policy: CausalLM) -> None:
    def tokens(first: int = 0, **address: int) -> list[list[int]]:
        groups = groups_of(policy, [text_prompt("7+8=")], first=first)
        played, _ = play(settings_of(policy), groups, **{"rollout": 0, "attempt": 0, "version": 0} | address)
        return played.actions.tolist()

    base = tokens()
    assert tokens() == base
    assert tokens(version=3) == base
    for other in (tokens(rollout=1), tokens(attempt=1), tokens(first=1)):
        assert all(one != two for one, two in zip(base, other, strict=True))


def test_two_turns_are_tokens_in_and_tokens_out(policy: CausalLM) -> None:
    """The second turn continues exactly what was written and shown, and its log-probabilities are those of the whole."""
    seen: list[GenerationRequest] = []
    settings = settings_of(
        policy,
        environment=Scripted(replies=["No. {hint} "]),
        sampler=TopK(k=20, temperature=0.8),
        stop=tuple("etaoinshrdlu01234"),
        max_new_tokens=25,
        recorder=lambda request, completions: seen.append(request),
    )
    groups = groups_of(policy, [text_prompt("7+8=", 0, hint="think"), text_prompt("z", 1, hint="x")])
    rollouts, episodes = play(settings, groups, rollout=0, attempt=0, version=0)
    assert len(seen) == 2
    two_turns = [row for row, episode in enumerate(episodes) if len(episode.turns) == 2]
    assert two_turns
    assert seen[1].address_QA.tolist() == [[0, row // 3, 0, row % 3, 1] for row in two_turns]
    contexts = [seen[1].contexts[int(index)].tolist() for index in seen[1].context_Q]
    for row, context in zip(two_turns, contexts, strict=True):
        episode, group = episodes[row], groups[row // 3]
        shown = policy.tokenizer.encode(f"No. {episode.prompt.columns['hint']} ")
        first, second = (turn.token_ids for turn in episode.turns)
        assert episode.turns[0].observation == f"No. {episode.prompt.columns['hint']} "
        assert episode.turns[1].observation is None
        assert context == [*group.tokens.tolist(), *first, *shown]
        assert rollouts.actions[row].tolist() == [*first, *shown, *second]
        steps = rollouts.row_S == row
        written = [True] * len(first) + [False] * len(shown) + [True] * len(second)
        assert rollouts.trainable_S[steps].tolist() == written
        assert rollouts.turn_S[steps].tolist() == [0] * (len(first) + len(shown)) + [1] * len(second)
        assert int(rollouts.lengths_R[row]) == len(first) + len(second) == len(episode.log_probs)
        assert rollouts.support is not None
        sizes = rollouts.support.lengths()[steps].tolist()
        assert sizes == [20 if flag else 0 for flag in written]
        # The whole through one forward of the plain model.
        with torch.no_grad():
            actions = rollouts.actions[row].tolist()
            lp = row_distributions(policy.causal_lm, group.tokens.tolist(), actions, 0.8)
        for step, token in enumerate(actions):
            found = float(rollouts.behaviour_log_probs_S[steps][step])
            inside = lp[step].topk(20).values.exp().sum()
            assert found == pytest.approx(float(lp[step, token] - inside.log()) if written[step] else 0.0, abs=1e-5)
    with torch.no_grad():
        again = policy(rollouts)["log_prob"]
    assert again.shape[0] == int(rollouts.trainable_S.sum())
    assert float((again - rollouts.behaviour_log_probs_S[rollouts.trainable_S]).abs().max()) < 1e-5


def test_rows_end_at_different_turns(policy: CausalLM) -> None:
    environment = Scripted(column="replies", turns=3)
    engine = Written([[([10, EOS], STOP)] * 3, [([11, EOS], STOP)] * 2, [([12, EOS], STOP)]])
    prompts = [
        text_prompt("a", 0, replies=None),
        text_prompt("bb", 1, replies=["x"]),
        text_prompt("c", 2, replies=["y", "z"]),
    ]
    settings = settings_of(policy, environment=environment, engine=engine, members=1)
    rollouts, episodes = play(settings, groups_of(policy, prompts), rollout=0, attempt=0, version=0)
    assert [len(episode.turns) for episode in episodes] == [1, 2, 3]
    assert [request.address_QA[:, 1].tolist() for request in engine.requests] == [[0, 1, 2], [1, 2], [2]]
    x, y, z = policy.tokenizer.encode("xyz")
    assert rollouts.actions.tolist() == [[10, 1], [10, 1, x, 11, 1], [10, 1, y, 11, 1, z, 12, 1]]
    assert rollouts.turn_S.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 2, 2]
    assert rollouts.finish_R.tolist() == [STOP] * 3


def test_a_truncated_turn_ends_the_row(policy: CausalLM) -> None:
    engine = Written([[([10, 11], LENGTH), ([10, EOS], STOP)], [([12, EOS], STOP)]])
    settings = settings_of(policy, environment=Scripted(replies=["x"]), engine=engine, members=2)
    rollouts, episodes = play(settings, groups_of(policy, [text_prompt("a")]), rollout=0, attempt=0, version=0)
    assert [len(episode.turns) for episode in episodes] == [1, 2]
    assert rollouts.finish_R.tolist() == [LENGTH, STOP]
    assert [episode.finish for episode in episodes] == [LENGTH, STOP]


def test_an_environment_that_would_go_on_truncates_the_row(policy: CausalLM) -> None:
    engine = Written([[([10, EOS], STOP)], [([11, EOS], STOP)]])
    environment = Scripted(column="replies", turns=2)
    prompts = [text_prompt("a", 0, replies=["x", "y", "z"])]
    settings = settings_of(policy, environment=environment, engine=engine, members=1)
    rollouts, episodes = play(settings, groups_of(policy, prompts), rollout=0, attempt=0, version=0)
    assert len(episodes[0].turns) == 2
    assert rollouts.finish_R.tolist() == [LENGTH]
    assert episodes[0].turns[1].finish is LENGTH
    assert episodes[0].turns[1].observation is None


def test_a_full_context_truncates_the_row(policy: CausalLM) -> None:
    """256 tokens: 200 of the prompt, 20 written, and 40 that would be shown."""
    engine = Written([[([10] * 19 + [EOS], STOP)] * 2, [([11, EOS], STOP)]])
    prompts = [text_prompt("a" * 200, 0, replies=["x" * 40]), text_prompt("a" * 200, 1, replies=["x" * 35])]
    settings = settings_of(
        policy, environment=Scripted(column="replies", turns=2), engine=engine, members=1, max_new_tokens=60
    )
    rollouts, episodes = play(settings, groups_of(policy, prompts), rollout=0, attempt=0, version=0)
    assert engine.requests[0].limit_Q.tolist() == [56, 56]
    assert engine.requests[1].limit_Q.tolist() == [1]
    assert rollouts.finish_R.tolist() == [LENGTH, STOP]
    assert [len(episode.turns) for episode in episodes] == [1, 2]
    assert rollouts.actions.lengths().tolist() == [20, 57]
    assert episodes[0].turns[0].finish is LENGTH
    assert episodes[0].turns[0].observation is None


def test_limits_of_a_turn_follow_from_the_context(policy: CausalLM) -> None:
    request: list[GenerationRequest] = []
    settings = settings_of(policy, members=1, recorder=lambda asked, _: request.append(asked))
    play(settings, groups_of(policy, [text_prompt("a" * 253), text_prompt("a")]), rollout=0, attempt=0, version=4)
    assert request[0].limit_Q.tolist() == [3, 8]
    assert request[0].version == 4


@pytest.mark.parametrize(
    ("first", "shown"),
    [
        ([20, 21, END], "\n<|start|>user\nwrong<|end|>\n<|start|>assistant\n"),
        ([20, 21], "<|end|>\n<|start|>user\nwrong<|end|>\n<|start|>assistant\n"),
    ],
)
def test_a_chat_answers_in_messages_and_closes_each_turn_once(chat: CausalLM, first: list[int], shown: str) -> None:
    engine = Written([[(first, STOP)], [([22, END], STOP)]])
    settings = settings_of(chat, environment=Scripted(replies=["wrong"]), engine=engine, members=1)
    rollouts, _ = play(settings, groups_of(chat, [text_prompt(user("2+3"))]), rollout=0, attempt=0, version=0)
    actions = rollouts.actions[0].tolist()
    middle = actions[len(first) : -2]
    assert chat.tokenizer.decode(middle) == shown
    assert actions.count(END) == 3
    assert rollouts.trainable_S.tolist() == [True] * len(first) + [False] * len(middle) + [True, True]
    # The conversation is what the template writes of it at once.
    written = chat.tokenizer.decode([20, 21])
    messages = [*user("2+3"), {"role": "assistant", "content": written}, *user("wrong")]
    whole = chat.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert chat.tokenizer.decode([*rollouts.prompts[0].tolist(), *actions[:-2]]) == whole


def test_a_long_observation_is_cut_and_still_opens_the_next_turn(chat: CausalLM) -> None:
    engine = Written([[([20, END], STOP)], [([22, END], STOP)]])
    around = len(chat.encode_observation(text_prompt(user("?")), "", [20, END]))
    environment = Scripted(replies=["abcdefghij"], max_observation_tokens=around + 4)
    settings = settings_of(chat, environment=environment, engine=engine, members=1)
    rollouts, episodes = play(settings, groups_of(chat, [text_prompt(user("2+3"))]), rollout=0, attempt=0, version=0)
    assert episodes[0].turns[0].observation == "abcd"
    text = chat.tokenizer.decode(rollouts.actions[0].tolist()[2:-2])
    assert text == "\n<|start|>user\nabcd<|end|>\n<|start|>assistant\n"
    engine = Written([[([20, END], STOP)]])
    small = settings_of(
        chat, environment=Scripted(replies=["abc"], max_observation_tokens=around - 1), engine=engine, members=1
    )
    with pytest.raises(ConfigError, match=f"max_observation_tokens: {around - 1} .* \\({around} tokens\\); raise it"):
        play(small, groups_of(chat, [text_prompt(user("2+3"))]), rollout=0, attempt=0, version=0)


def test_a_long_plain_observation_is_cut(policy: CausalLM) -> None:
    engine = Written([[([20, EOS], STOP)], [([22, EOS], STOP)]])
    environment = Scripted(replies=["abcdefghij"], max_observation_tokens=3)
    settings = settings_of(policy, environment=environment, engine=engine, members=1)
    rollouts, episodes = play(settings, groups_of(policy, [text_prompt("a")]), rollout=0, attempt=0, version=0)
    assert policy.tokenizer.decode(rollouts.actions[0].tolist()[2:-2]) == "abc" == episodes[0].turns[0].observation


def test_a_stop_string_that_is_a_special_token_stops(chat: CausalLM) -> None:
    request: list[GenerationRequest] = []
    settings = settings_of(chat, stop=("<|start|>", "xyz"), recorder=lambda asked, _: request.append(asked))
    play(settings, groups_of(chat, [text_prompt(user("2+3"))]), rollout=0, attempt=0, version=0)
    assert request[0].stop_ids == {END, START}
    assert list(request[0].stop_strings) == ["<|start|>", "xyz"]


class Scoring(Environment):
    """Rewards each turn with its number, and notes what it is asked."""

    name = "test_scoring"
    max_turns = 2
    max_observation_tokens = 9

    def __init__(self) -> None:
        self.asked: list[list[tuple[int, int, int]]] = []

    def start(self, episodes: Sequence[Episode]) -> None:
        assert all(not episode.turns for episode in episodes)
        self.asked.append([(episode.group, episode.member, 0) for episode in episodes])

    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        self.asked.append([(episode.group, episode.member, len(episode.turns)) for episode in episodes])
        return [Observation("go" if len(e.turns) == 1 and e.member else None, float(len(e.turns))) for e in episodes]


def test_environments_see_every_live_episode_and_reward_turns(policy: CausalLM) -> None:
    engine = Written([[([20, EOS], STOP)] * 4, [([22, EOS], STOP)] * 2])
    environment = Scoring()
    settings = settings_of(policy, environment=environment, engine=engine, members=2)
    _, episodes = play(
        settings, groups_of(policy, [text_prompt("a"), text_prompt("b")]), rollout=0, attempt=0, version=0
    )
    all_rows = [(group, member) for group in (0, 1) for member in (0, 1)]
    assert environment.asked == [
        [(*row, 0) for row in all_rows], [(*row, 1) for row in all_rows], [(0, 1, 2), (1, 1, 2)]
    ]  # fmt: skip
    assert [[turn.reward for turn in episode.turns] for episode in episodes] == [[1.0], [1.0, 2.0]] * 2


def test_the_engines_version_of_the_weights_is_kept(policy: CausalLM) -> None:
    class Stale(Written):
        def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
            return replace(super().generate(policy, request), version=5)

    engine = Stale([[([20, EOS], STOP)]])
    played, _ = play(
        settings_of(policy, engine=engine, members=1),
        groups_of(policy, [text_prompt("a")]),
        rollout=0,
        attempt=0,
        version=8,
    )
    assert played.version_R.tolist() == [5]


def test_prompts_may_be_the_same_in_two_groups(policy: CausalLM, tmp_path: Path) -> None:
    played: Rollouts
    played, _ = play(
        settings_of(policy), groups_of(policy, [text_prompt("a"), text_prompt("a")]), rollout=0, attempt=0, version=0
    )
    assert played.group_R.tolist() == [0, 0, 0, 1, 1, 1]
    tokens = played.actions.tolist()
    assert all(one != two for one, two in zip(tokens[:3], tokens[3:], strict=True))
