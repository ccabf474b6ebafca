"""The built-in components, registered through the same hooks as a stranger's."""

from __future__ import annotations

from typing import Any

from grpo_lightning.hookspecs import hookimpl
from grpo_lightning.registry import LazyComponent


@hookimpl
def grpo_register_reward() -> list[Any]:
    from grpo_lightning.rewards.environment import EnvironmentReward
    from grpo_lightning.rewards.exact_match import ExactMatch
    from grpo_lightning.rewards.function import FunctionReward
    from grpo_lightning.rewards.length import Length
    from grpo_lightning.rewards.numeric_match import NumericMatch
    from grpo_lightning.rewards.regex import Regex

    return [EnvironmentReward, ExactMatch, FunctionReward, Length, NumericMatch, Regex]


@hookimpl
def grpo_register_advantage() -> list[Any]:
    return [*_step_estimators(), *_row_estimators()]


def _step_estimators() -> list[Any]:
    from grpo_lightning.advantages.gigpo import GiGPO
    from grpo_lightning.advantages.otb import OptimalTokenBaseline
    from grpo_lightning.advantages.reinforce_plus_plus import ReinforcePlusPlus
    from grpo_lightning.advantages.remax import ReMax

    return [GiGPO, OptimalTokenBaseline, ReinforcePlusPlus, ReMax]


def _row_estimators() -> list[Any]:
    from grpo_lightning.advantages.gdpo import GDPO
    from grpo_lightning.advantages.gpg import GPG
    from grpo_lightning.advantages.group_norm import GroupNorm
    from grpo_lightning.advantages.leave_one_out import LeaveOneOut
    from grpo_lightning.advantages.lite_ppo import LitePPO
    from grpo_lightning.advantages.max_minus_second import MaxMinusSecond
    from grpo_lightning.advantages.maxrl import MaxRL
    from grpo_lightning.advantages.mean_centered import MeanCentered
    from grpo_lightning.advantages.opo import OPO
    from grpo_lightning.advantages.pass_at_k import PassAtK
    from grpo_lightning.advantages.pkpo import PKPO
    from grpo_lightning.advantages.rae import RoleConditionedAdvantage
    from grpo_lightning.advantages.rank_based import RankBased
    from grpo_lightning.advantages.reinforce_plus_plus_baseline import ReinforcePlusPlusBaseline

    return [
        GDPO,
        GPG,
        GroupNorm,
        LeaveOneOut,
        LitePPO,
        MaxMinusSecond,
        MaxRL,
        MeanCentered,
        OPO,
        PassAtK,
        PKPO,
        RoleConditionedAdvantage,
        RankBased,
        ReinforcePlusPlusBaseline,
    ]


@hookimpl
def grpo_register_transform() -> list[Any]:
    from grpo_lightning.transforms.clip import ClipAdvantage

    return [ClipAdvantage]


@hookimpl
def grpo_register_selector() -> list[Any]:
    from grpo_lightning.selectors.all_groups import AllGroups
    from grpo_lightning.selectors.drop_zero_signal import DropZeroSignal
    from grpo_lightning.selectors.max_variance import MaxVariance
    from grpo_lightning.selectors.resample import Resample

    return [AllGroups, DropZeroSignal, MaxVariance, Resample]


@hookimpl
def grpo_register_loss() -> list[Any]:
    return [*_whole_update_losses(), *_sequence_losses(), *_step_losses()]


def _whole_update_losses() -> list[Any]:
    from grpo_lightning.losses.clip_cov import ClipCovLoss
    from grpo_lightning.losses.kl_cov import KLCovLoss
    from grpo_lightning.losses.m2po import M2POLoss

    return [ClipCovLoss, KLCovLoss, M2POLoss]


def _sequence_losses() -> list[Any]:
    from grpo_lightning.losses.dro import DROLoss
    from grpo_lightning.losses.gmpo import GMPO
    from grpo_lightning.losses.gspo import GSPO
    from grpo_lightning.losses.luspo import LUSPO
    from grpo_lightning.losses.real import REALLoss

    return [DROLoss, GMPO, GSPO, LUSPO, REALLoss]


def _step_losses() -> list[Any]:
    from grpo_lightning.losses.cispo import CISPO
    from grpo_lightning.losses.clipped import ClippedPolicyLoss
    from grpo_lightning.losses.decoupled import DecoupledPPO
    from grpo_lightning.losses.dppo_kl import DPPOKLLoss
    from grpo_lightning.losses.dppo_tv import DPPOTVLoss
    from grpo_lightning.losses.fipo import FIPOLoss
    from grpo_lightning.losses.gspo_token import GSPOToken
    from grpo_lightning.losses.reinforce import Reinforce
    from grpo_lightning.losses.rollout_is import RolloutIS
    from grpo_lightning.losses.sapo import SAPO
    from grpo_lightning.losses.topr import TOPR
    from grpo_lightning.losses.vespo import VESPO

    return [
        CISPO,
        ClippedPolicyLoss,
        DecoupledPPO,
        DPPOKLLoss,
        DPPOTVLoss,
        FIPOLoss,
        GSPOToken,
        Reinforce,
        RolloutIS,
        SAPO,
        TOPR,
        VESPO,
    ]


@hookimpl
def grpo_register_aggregation() -> list[Any]:
    from grpo_lightning.aggregations.constant_length import ConstantLength
    from grpo_lightning.aggregations.prompt_mean import PromptMean
    from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
    from grpo_lightning.aggregations.sequence_mean_token_sum import SequenceMeanTokenSum
    from grpo_lightning.aggregations.token_mean import TokenMean
    from grpo_lightning.aggregations.token_sum import TokenSum

    return [ConstantLength, PromptMean, SequenceMeanTokenMean, SequenceMeanTokenSum, TokenMean, TokenSum]


@hookimpl
def grpo_register_kl() -> list[Any]:
    from grpo_lightning.kl.absolute import AbsoluteKL
    from grpo_lightning.kl.exact import ExactKL
    from grpo_lightning.kl.k1 import K1
    from grpo_lightning.kl.k2 import K2
    from grpo_lightning.kl.k3 import K3
    from grpo_lightning.kl.k3_plus import K3Plus
    from grpo_lightning.kl.k3_unbiased import UnbiasedK3

    return [AbsoluteKL, ExactKL, K1, K2, K3, K3Plus, UnbiasedK3]


@hookimpl
def grpo_register_correction() -> list[Any]:
    from grpo_lightning.corrections.high_entropy import HighEntropyMask
    from grpo_lightning.corrections.icepop import IcePop
    from grpo_lightning.corrections.off_policy_sequence_mask import OffPolicySequenceMask
    from grpo_lightning.corrections.product import ProductCorrection
    from grpo_lightning.corrections.sequence_rejection import SequenceRejection
    from grpo_lightning.corrections.truncated_importance import TruncatedImportance
    from grpo_lightning.corrections.tv_mask import TVMask

    return [
        HighEntropyMask,
        IcePop,
        OffPolicySequenceMask,
        ProductCorrection,
        SequenceRejection,
        TruncatedImportance,
        TVMask,
    ]


@hookimpl
def grpo_register_auxiliary() -> list[Any]:
    from grpo_lightning.auxiliary.supervised import Supervised

    return [Supervised]


@hookimpl
def grpo_register_sampler() -> list[Any]:
    from grpo_lightning.samplers.greedy import Greedy
    from grpo_lightning.samplers.min_p import MinP
    from grpo_lightning.samplers.temperature import Temperature
    from grpo_lightning.samplers.top_k import TopK
    from grpo_lightning.samplers.top_p import TopP

    return [Greedy, MinP, Temperature, TopK, TopP]


@hookimpl
def grpo_register_curriculum() -> list[Any]:
    from grpo_lightning.curricula.mixture import Mixture
    from grpo_lightning.curricula.sequential import Sequential
    from grpo_lightning.curricula.shuffled import Shuffled

    return [Mixture, Sequential, Shuffled]


@hookimpl
def grpo_register_engine() -> list[Any]:
    from grpo_lightning.engines.decode_loop import DecodeLoop
    from grpo_lightning.engines.hf_generate import HFGenerate
    from grpo_lightning.engines.replay import Replay
    from grpo_lightning.engines.vllm import VLLM

    return [DecodeLoop, HFGenerate, Replay, VLLM]


@hookimpl
def grpo_register_environment() -> list[Any]:
    from grpo_lightning.environments.scripted import Scripted
    from grpo_lightning.environments.single_turn import SingleTurn

    return [Scripted, SingleTurn]


@hookimpl
def grpo_register_policy() -> list[Any]:
    from grpo_lightning.policies.causal_lm import CausalLM

    return [CausalLM]


@hookimpl
def grpo_register_prompts() -> list[Any]:
    from grpo_lightning.prompts.arithmetic import Arithmetic
    from grpo_lightning.prompts.file import FilePrompts
    from grpo_lightning.prompts.hub import HubPrompts
    from grpo_lightning.prompts.records import Records
    from grpo_lightning.prompts.sorting import Sorting

    return [Arithmetic, FilePrompts, HubPrompts, Records, Sorting]


@hookimpl
def grpo_register_callback() -> list[Any]:
    here = "grpo_lightning.callbacks"
    return [
        LazyComponent(
            "metric_logger",
            f"{here}.metric_logger.MetricLogger",
            "Logs every metric of docs/metrics.md, one row an update.",
        ),
        LazyComponent("progress_line", f"{here}.progress_line.ProgressLine", "Shows a run on one live line."),
        LazyComponent("run_report", f"{here}.run_report.RunReport", "Ends a run with a table of before and after."),
        LazyComponent("sample_log", f"{here}.sample_log.SampleLog", "Writes sampled groups to a file and to wandb."),
    ]
