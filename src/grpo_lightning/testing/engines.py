"""What every engine must do, on the embedded policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest, RowEnd
from grpo_lightning.policies.base import Policy
from grpo_lightning.testing.check import Nonconformity, Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.generation import NAMES, engine_of, fresh_log_probs, part, request
from grpo_lightning.testing.global_state import preserved_globals
from grpo_lightning.testing.tiny_model import shared_tiny_policy, tiny_policy
from grpo_lightning.testing.untouched import expect_untouched
from grpo_lightning.types import FinishReason

CLOSE = 1e-4
"""Difference of float32 log-probabilities that are one."""
GENERATORS = ("torch's random state", "numpy's random state", "the random state of Python's random")


@contextmanager
def _ready(specimen: Specimen, policy: Policy) -> Iterator[Engine]:
    """A new engine as a run has it: one with weights of its own has been given those of ``policy``."""
    engine = engine_of(specimen)
    try:
        if engine.keeps_weights:
            engine.refresh(policy, 0)
        yield engine
    finally:
        engine.close()


def _complete(specimen: Specimen, asked: GenerationRequest, policy: Policy | None = None) -> Completions:
    """What a new engine answers, called as a run calls it."""
    used = policy or shared_tiny_policy()
    with torch.no_grad(), _ready(specimen, used) as engine:
        return engine.generate(used, asked)


def check_declares_how_it_draws(specimen: Specimen) -> None:
    """An engine declares whether it is addressed and whether it is deterministic."""
    for name in ("addressed", "deterministic"):
        value = getattr(specimen.component, name, None)
        expect(
            isinstance(value, bool),
            f"An engine declares {name} as True or False: whether runs can be compared and resumed exactly rests on it",
            repr(value),
            f"set {name} = False on the class unless it holds, see engines.base.Engine",
        )


def check_completes_every_row(specimen: Specimen) -> None:
    """Every row gets between one token and its limit, each with a log-probability and a support."""
    for name in NAMES:
        asked = request(name)
        found = _complete(specimen, asked)
        rows, lengths_Q = asked.limit_Q.shape[0], found.tokens.lengths()
        support = found.support
        faults = [
            (len(found.tokens) != rows, f"{len(found.tokens)} sequences for {rows} rows"),
            (found.tokens.values.dtype != torch.int64, f"tokens of {found.tokens.values.dtype}, not int64"),
            (not torch.equal(found.log_probs.offsets, found.tokens.offsets), "log_probs of other lengths than tokens"),
            (
                found.log_probs.values.dtype != torch.float32,
                f"log_probs of {found.log_probs.values.dtype}, not float32",
            ),
            (found.finish_Q.dtype != torch.int64, f"finish_Q of {found.finish_Q.dtype}, not int64"),
            (tuple(found.finish_Q.shape) != (rows,), f"finish_Q of shape {tuple(found.finish_Q.shape)}"),
            (bool((lengths_Q < 1).any()), "a row without a token"),
            (len(lengths_Q) == rows and bool((lengths_Q > asked.limit_Q).any()), "a row longer than its limit"),
            (support is not None and len(support) != found.tokens.values.shape[0], "a support missing for some tokens"),
            (support is not None and support.values.dtype != torch.int32, "supports that are not int32"),
        ]
        wrong = [text for fault, text in faults if fault]
        expect(
            not wrong,
            "generate() returns what engines.base.Completions says, in the order of the request",
            "; ".join(wrong),
            "write rows with engines.rows.RowWriter, which lays them end to end",
        )


def check_rows_end_where_they_must(specimen: Specimen) -> None:
    """A row ends with the first stop id or stop string, which is part of it, or at its limit, and its finish says which."""
    policy = shared_tiny_policy()
    for name in ("plain", "narrow", "strings"):
        asked = request(name)
        found = _complete(specimen, asked)
        for row, tokens in enumerate(found.tokens.tolist()):
            # A token of the embedded model is a character, so a stop string of one character is a token of it.
            stops = [
                position
                for position, token in enumerate(tokens)
                if token in asked.stop_ids or policy.decode([token]) in asked.stop_strings
            ]
            limit = int(asked.limit_Q[row])
            end = stops[0] + 1 if stops else limit
            finish = FinishReason.STOP if stops else FinishReason.LENGTH
            reported = int(found.finish_Q[row])
            expect(
                len(tokens) == end and reported == finish,
                "A row ends with the first stop id or stop string, kept in it (finish STOP), or else at its limit (LENGTH)",
                f"{len(tokens)} tokens with finish {reported} where {end} with {finish.name} ({int(finish)}) were due "
                f"(stop at {stops[:1] or 'none'}, limit {limit})",
                "ask engines.stopping.finish_of after each token, or cut with engines.stopping.cut_at_stop",
            )


def check_log_probs_are_those_of_the_policy(specimen: Specimen) -> None:
    """Log-probabilities are those of a fresh pass of the policy, at the temperature and on the supports of the row."""
    for name in ("plain", "narrow"):
        asked = request(name)
        found = _complete(specimen, asked)
        support = found.support
        if support is not None:
            chosen = zip(support.tolist(), found.tokens.values.tolist(), strict=True)
            good = all(not ids or (token in ids and ids == sorted(set(ids))) for ids, token in chosen)
            must = "A support holds the id that was chosen, and its ids ascend"
            expect(good, must, "one that does not", "store what could be chosen at the step, sorted")
        worst = float((fresh_log_probs(asked, found) - found.log_probs.values.float()).abs().max())
        expect(
            worst <= CLOSE,
            "A token's log-probability is that under the distribution really sampled from: after temperature, on its support",
            f"one that differs by {worst:.3g} from a fresh pass of the policy (request {name!r}, temperature "
            f"{asked.sampler.temperature:g})",
            "take it from the very distribution that is drawn from, in float32 or wider, and store the support with it",
        )


def check_equal_requests_give_equal_completions(specimen: Specimen) -> None:
    """If it declares deterministic, equal requests give equal completions."""
    if not getattr(specimen.component, "deterministic", False):
        return
    policy, asked = shared_tiny_policy(), request("plain")
    with torch.no_grad(), _ready(specimen, policy) as engine:
        first, second = engine.generate(policy, asked), engine.generate(policy, asked)
    other = _complete(specimen, asked)
    for found, who in ((second, "asked again"), (other, "asked for the first time as a new engine")):
        expect(
            torch.equal(found.tokens.values, first.tokens.values)
            and torch.equal(found.log_probs.values, first.log_probs.values),
            "deterministic = True: equal requests and equal weights give equal completions, so that a resumed run is exact",
            f"other completions when {who}",
            "draw from request.seed, request.stream and the addresses, keep no generator of its own; or set "
            "deterministic = False",
        )


def check_draws_are_addressed(specimen: Specimen) -> None:
    """If it declares addressed, a row's tokens do not depend on the batch that it is in."""
    if not getattr(specimen.component, "addressed", False):
        return
    asked = request("plain")
    whole = _complete(specimen, asked).tokens.tolist()
    order = [13, 2, 7, 0, 11, 5]
    found = _complete(specimen, part(asked, order)).tokens.tolist()
    expect(
        found == [whole[row] for row in order],
        "addressed = True: a draw is a function of (seed, stream, address, position), whatever batch the row is in",
        "other tokens where some of the rows are asked for in another order",
        "draw with functional.seeding.addressed_uniform from request.address_QA and the position, or set addressed = False",
    )


def check_draws_differ(specimen: Specimen) -> None:
    """Rows of one context draw apart, and so do rollouts."""
    first = _complete(specimen, request("plain")).tokens.tolist()
    later = _complete(specimen, request("later")).tokens.tolist()
    group = [tuple(tokens) for tokens in first[:4]]
    must = "Draws differ by member and by rollout: a group whose rows are equal has nothing to compare"
    mend = "draw with all of request.address_QA: (rollout, group, attempt, member, turn)"
    expect(len(set(group)) > 1, must, "equal rows for all members of a group", mend)
    expect(first != later, must, "the same completions in two rollouts", mend)


def check_tells_of_ended_rows_once(specimen: Specimen) -> None:
    """What it tells request.ended, if anything, is once a row and as in its completions, which do not depend on it."""
    told: list[RowEnd] = []
    found = _complete(specimen, replace(request("plain"), ended=told.append))
    alone = _complete(specimen, request("plain"))
    rows = [end.row for end in told]
    must = "request.ended is called once for a row, with what the completions will hold"
    mend = "call it where a row has just ended, with engines.rows.RowWriter.ended(row), or not at all"
    twice = sorted({row for row in rows if rows.count(row) > 1})
    expect(not twice, must, f"it was called more than once for row {twice[:1]}", mend)
    for end in told:
        wanted = (found.tokens[end.row].tolist(), found.log_probs[end.row].tolist(), int(found.finish_Q[end.row]))
        same = (list(end.tokens), list(end.log_probs), int(end.finish)) == wanted
        expect(same, must, f"row {end.row} was told to be {end}", mend)
    if getattr(specimen.component, "deterministic", False):
        same = found.tokens.tolist() == alone.tokens.tolist()
        expect(same, "No completion depends on request.ended", "other tokens when it is set", mend)


def check_says_its_version(specimen: Specimen) -> None:
    """The version of the weights that sampled is None for the current ones, or a number not above the request's."""
    asked = request("plain")
    version = _complete(specimen, asked).version
    good = version is None or (isinstance(version, int) and 0 <= version <= asked.version)
    expect(
        good,
        f"version is None where the current weights sampled, or else how many updates (0 to {asked.version}) they had seen",
        repr(version),
        "leave version out, or give the number that the weights had when they were handed to the sampler",
    )


def check_leaves_the_policy_alone(specimen: Specimen) -> None:
    """An engine changes neither weights nor gradients nor modes of the policy."""
    policy = tiny_policy()
    policy.train()
    before = _state_of(policy)
    _complete(specimen, request("plain"), policy)
    found = difference(before, _state_of(policy), "policy")
    expect(
        found is None,
        "Generating leaves the policy as it was: weights, gradients, requires_grad, train and eval mode",
        str(found),
        "put back what you change, in a finally; dropout is 0 already, so train mode need not be left",
    )


def _state_of(policy: Policy) -> dict[str, object]:
    parameters = dict(policy.named_parameters())
    return {
        "weights": {name: each.detach().clone() for name, each in policy.state_dict().items()},
        "gradients": {name: each.grad for name, each in parameters.items()},
        "requires_grad": {name: each.requires_grad for name, each in parameters.items()},
        "training": {name: each.training for name, each in policy.named_modules()},
    }


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """An engine changes none of the tensors of its request."""
    asked = request("narrow")
    expect_untouched(lambda: _complete(specimen, asked), asked, "An engine")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """An engine leaves grad mode, default dtype and, if it is deterministic, global random generators as they are."""
    policy, asked = shared_tiny_policy(), request("plain")
    with torch.no_grad(), _ready(specimen, policy) as engine, preserved_globals() as changed:
        engine.generate(policy, asked)
    if not getattr(specimen.component, "deterministic", False):
        changed = [name for name in changed if name not in GENERATORS]
    if changed:
        raise Nonconformity(
            "Generating leaves alone what the whole process shares. Found: it changed "
            f"{', '.join(changed)}. To mend it: use a generator of its own, torch.random.fork_rng() where a library draws "
            "from the global one, and context managers for modes."
        )


CHECKS = checks(
    check_declares_how_it_draws,
    check_completes_every_row,
    check_rows_end_where_they_must,
    check_log_probs_are_those_of_the_policy,
    check_equal_requests_give_equal_completions,
    check_draws_are_addressed,
    check_draws_differ,
    check_tells_of_ended_rows_once,
    check_says_its_version,
    check_leaves_the_policy_alone,
    check_leaves_inputs_alone,
    check_leaves_the_process_alone,
)
