"""What every sampler must do."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from grpo_lightning.engines.draw import Draw, draw
from grpo_lightning.errors import ConfigError, GRPOError
from grpo_lightning.functional.log_probs import distribution
from grpo_lightning.functional.ragged import Ragged
from grpo_lightning.functional.seeding import addressed_uniform
from grpo_lightning.registry import constructor_parameters
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.generate_arguments import generate_distribution
from grpo_lightning.testing.global_state import unchanged_globals

DRAWS = 20_000
VOCABULARY = 9
LEAST_LIKELY = 1e-6
"""Probability below which a chi-square statistic is no chance."""


def _logits() -> Tensor:
    """[6, V] float64: a peaked row, a flat one, ties, a certain one, one with impossible ids, and a plain one."""
    generator = torch.Generator().manual_seed(4)
    plain = torch.randn(2, VOCABULARY, generator=generator, dtype=torch.float64)
    flat = torch.zeros(VOCABULARY, dtype=torch.float64)
    ties = torch.tensor([1.0, 0.0, 1.0, -2.0, 1.0, 0.0, -2.0, 0.5, 0.5], dtype=torch.float64)
    certain = torch.where(torch.arange(VOCABULARY) == 5, 0.0, -2000.0).double()
    impossible = plain[0].masked_fill(torch.arange(VOCABULARY) % 2 == 1, -torch.inf)
    return torch.stack([4 * plain[0], flat, ties, certain, impossible, plain[1]])


def _log_probs(sampler: Sampler) -> Tensor:
    """[Q, V] float64: log-probabilities after the sampler's temperature."""
    return torch.log_softmax(_logits() / sampler.temperature, dim=-1)


def _mask(support: Tensor | None, like_QV: Tensor) -> Tensor:
    return torch.ones_like(like_QV, dtype=torch.bool) if support is None else support


def _sound(sampler: Sampler, log_probs_QV: Tensor) -> bool:
    """Whether the support is a mask with something possible in every row, without which nothing can be drawn."""
    support = sampler.support(log_probs_QV.clone())
    if support is None:
        return True
    if support.dtype != torch.bool or support.shape != log_probs_QV.shape:
        return False
    return bool((support & torch.isfinite(log_probs_QV)).any(-1).all())


def check_temperature_is_checked(specimen: Specimen) -> None:
    """The temperature is a positive number, and any other is refused by the constructor."""
    found = specimen.make().temperature
    good = isinstance(found, int | float) and math.isfinite(found) and found > 0
    mend = "call super().__init__(temperature=temperature), which checks it"
    expect(good, "A sampler has a positive temperature", repr(found), mend)
    if "temperature" not in constructor_parameters(specimen.component):
        return
    for value in (0.0, -1.0, math.nan, math.inf):
        refused = False
        try:
            specimen.component(**{**specimen.arguments, "temperature": value})
        except ConfigError:
            refused = True
        expect(refused, "A temperature that is not a positive number is refused, before weights load",
               f"temperature={value} was taken", mend)  # fmt: skip


def check_support_is_a_mask(specimen: Specimen) -> None:
    """The support is None for everything, or a bool for each row and id."""
    sampler = specimen.make()
    log_probs_QV = _log_probs(sampler)
    support = sampler.support(log_probs_QV.clone())
    if support is None:
        return
    expect(
        support.dtype == torch.bool and support.shape == log_probs_QV.shape,
        f"A support is None, or bool of shape {tuple(log_probs_QV.shape)}, like its argument",
        f"{support.dtype} of shape {tuple(support.shape)}",
        "return the mask of what may be chosen, not ids or probabilities",
    )


def check_support_is_never_empty(specimen: Specimen) -> None:
    """Every row may choose something that is possible."""
    sampler = specimen.make()
    wide_QV = _log_probs(sampler)
    for log_probs_QV in (wide_QV, torch.log_softmax(wide_QV[:, :2].clamp(min=-3000.0), dim=-1)):
        mask_QV = _mask(sampler.support(log_probs_QV.clone()), log_probs_QV).bool().reshape(log_probs_QV.shape)
        empty = (~(mask_QV & torch.isfinite(log_probs_QV)).any(-1)).nonzero()
        row = int(empty[0]) if empty.numel() else 0
        expect(
            not empty.numel(),
            "A support holds at least one id of positive probability",
            f"none for probabilities {[round(each, 4) for each in log_probs_QV[row].exp().tolist()]}",
            "always keep the most probable id, whatever the threshold",
        )


def check_draws_follow_the_distribution(specimen: Specimen) -> None:
    """Draws follow softmax(logits / temperature) on the support, and the support that is stored gives their log-probabilities.

    The frequencies of 20,000 addressed draws pass a chi-square test against it, with a probability above 1e-6.
    """
    sampler = specimen.make()
    if not _sound(sampler, _log_probs(sampler)):
        return  # Its own checks say so.
    for index, logits_V in enumerate(_logits()):
        sampler = specimen.make()
        temperature = sampler.temperature
        log_probs_1V = torch.log_softmax(logits_V[None] / temperature, dim=-1)
        mask_V = _mask(sampler.support(log_probs_1V.clone()), log_probs_1V).bool().reshape(-1)
        wanted_V = log_probs_1V[0].masked_fill(~mask_V, -torch.inf).softmax(0)
        address = torch.stack([torch.full((DRAWS,), index), torch.arange(DRAWS)], dim=1)
        drawn = draw(logits_V.expand(DRAWS, -1).clone(), specimen.make(), addressed_uniform(0, "conformance", address))
        counts_V = torch.bincount(drawn.token_Q, minlength=VOCABULARY).double()
        chance = _chance(counts_V, wanted_V)
        expect(
            chance > LEAST_LIKELY,
            "Draws follow softmax(logits / temperature), restricted to the support",
            f"frequencies {[round(each, 3) for each in (counts_V / DRAWS).tolist()]} instead of "
            f"{[round(each, 3) for each in wanted_V.tolist()]} (chance {chance:.1g})",
            "let support() only say what may be chosen, from its argument alone: it must not change log_probs_QV in place",
        )
    _expect_replay(specimen.make())


def _chance(counts_V: Tensor, wanted_V: Tensor) -> float:
    """Probability of a chi-square statistic at least as large; 0 if something impossible was drawn."""
    if bool(counts_V[wanted_V == 0].any()):
        return 0.0
    expected_V = wanted_V * counts_V.sum()
    rare_V = expected_V < 10
    found = torch.cat([counts_V[~rare_V], counts_V[rare_V].sum().reshape(1)])
    hoped = torch.cat([expected_V[~rare_V], expected_V[rare_V].sum().reshape(1)])
    found, hoped = found[hoped > 0], hoped[hoped > 0]
    if found.shape[0] < 2:
        return 1.0
    statistic = ((found - hoped) ** 2 / hoped).sum()
    freedom = torch.tensor((found.shape[0] - 1) / 2, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom, statistic / 2))


def _expect_replay(sampler: Sampler) -> None:
    """Score what was drawn as training does: with the temperature and the support that were stored."""
    logits_QV = _logits()
    address = torch.stack([torch.arange(len(logits_QV)), torch.arange(len(logits_QV))], dim=1)
    drawn: Draw = draw(logits_QV.clone(), sampler, addressed_uniform(1, "conformance", address))
    support = None if drawn.support is None else Ragged.from_list(drawn.support, torch.int32)
    temperature_Q = torch.full((len(logits_QV),), sampler.temperature, dtype=torch.float64)
    replayed_QV = distribution(logits_QV, temperature_Q, support)
    replayed_Q = replayed_QV.gather(1, drawn.token_Q[:, None]).squeeze(1)
    worst = float((replayed_Q - drawn.log_prob_Q).abs().max())
    expect(
        worst <= 1e-9,
        "The temperature and the support that are stored with a row give the log-probability that it was drawn with",
        f"one that differs by {worst:g}",
        "let a sampler's temperature stay what it is: support() must not change the sampler",
    )


def check_rows_do_not_mix(specimen: Specimen) -> None:
    """A row's support does not depend on the other rows, nor on its place."""
    sampler = specimen.make()
    log_probs_QV = _log_probs(sampler)
    whole_QV = _mask(specimen.make().support(log_probs_QV.clone()), log_probs_QV)
    rows = [each[None] for each in log_probs_QV]
    alone_QV = torch.cat([_mask(specimen.make().support(row.clone()), row) for row in rows])
    turned_QV = _mask(specimen.make().support(log_probs_QV.flip(0).clone()), log_probs_QV).flip(0)
    for found_QV, how in ((alone_QV, "alone"), (turned_QV, "in another order")):
        expect(
            torch.equal(found_QV, whole_QV),
            "A row's support is a function of its own probabilities: finished rows leave the batch while others go on",
            f"another support where the row is {how}",
            "reduce over the last dimension only",
        )


def check_repeats_itself(specimen: Specimen) -> None:
    """A sampler called again with the same probabilities gives the same support."""
    sampler = specimen.make()
    log_probs_QV = _log_probs(sampler)
    masks = [_mask(sampler.support(log_probs_QV.clone()), log_probs_QV) for _ in range(3)]
    expect(
        torch.equal(masks[0], masks[1]) and torch.equal(masks[1], masks[2]),
        "A support is a function of the probabilities; the engine draws",
        "supports that change from one call to the next",
        "keep nothing between calls and draw nothing at random",
    )


def check_explores_as_declared(specimen: Specimen) -> None:
    """A sampler whose support is always a single id declares explores = False, and only such a one."""
    sampler = specimen.make()
    log_probs_QV = _log_probs(sampler)
    sizes_Q = _mask(sampler.support(log_probs_QV.clone()), log_probs_QV).reshape(log_probs_QV.shape).sum(-1)
    single = bool((sizes_Q == 1).all())
    expect(
        sampler.explores != single,
        "explores says whether members of a group can differ: without that there is nothing to compare",
        f"explores = {sampler.explores}, and supports of {sizes_Q.tolist()} ids",
        f"set explores = {not single}",
    )


def check_generate_samples_the_same(specimen: Specimen) -> None:
    """``generate_arguments`` describe the same distribution to transformers, or are refused."""
    sampler = specimen.make()
    generator = torch.Generator().manual_seed(8)
    logits_QV = 2 * torch.randn(4, VOCABULARY, generator=generator, dtype=torch.float64)
    log_probs_QV = torch.log_softmax(logits_QV / sampler.temperature, dim=-1)
    try:
        arguments = sampler.generate_arguments()
    except GRPOError:
        return
    theirs_QV = generate_distribution(arguments, logits_QV)
    if theirs_QV is None:
        return
    mask_QV = _mask(sampler.support(log_probs_QV.clone()), log_probs_QV).bool().reshape(log_probs_QV.shape)
    own_QV = log_probs_QV.masked_fill(~mask_QV, -torch.inf).softmax(-1)
    worst = float((theirs_QV - own_QV).abs().max())
    expect(
        worst <= 1e-6,
        "generate_arguments() describe to transformers' generate what temperature and support() do",
        f"probabilities that differ by {worst:.3g} with {arguments}",
        "override generate_arguments, or raise a ConfigError there that says that generate cannot do it",
    )


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A sampler leaves global random generators, grad mode and default dtype as they are."""
    sampler = specimen.make()
    log_probs_QV = _log_probs(sampler)
    with unchanged_globals("asking for a support"):
        sampler.support(log_probs_QV)


CHECKS = checks(
    check_temperature_is_checked,
    check_support_is_a_mask,
    check_support_is_never_empty,
    check_draws_follow_the_distribution,
    check_rows_do_not_mix,
    check_repeats_itself,
    check_explores_as_declared,
    check_generate_samples_the_same,
    check_leaves_the_process_alone,
)
