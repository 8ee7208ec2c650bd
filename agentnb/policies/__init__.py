"""Policies decide after each round what happens next: pure functions of the run, called in order; the first verdict wins."""

from typing import TYPE_CHECKING

from agentnb.errors import module_getattr
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.continuation import Complete, GoOn, WorkflowMode, stuck
from agentnb.policies.ending import (
    call_announced,
    call_in_words,
    empty_answer,
    natural_stop,
    no_call_came,
    no_room,
    paused,
    person_spoke,
    refused,
    reply_cut,
    two_empty_answers,
)
from agentnb.policies.interventions import OpenTodos, TodoNudges
from agentnb.policies.loop_policies import OnlyBlockedCalls, PlanningLoop, SaidTooOften
from agentnb.policies.policy_sets import NAMED, Chat, Matrix, Minimal, PolicySet, find_policy, in_workflow_mode, settings_of
from agentnb.policies.run_limits import MaxRounds
from agentnb.policies.verdict import AskBetween, Continue, Ending, Interlude, LoopFinding, Policy, Stop, Verdict, decide

__all__ = [
    "NAMED",
    "AskBetween",
    "Chat",
    "Complete",
    "Continue",
    "Ending",
    "GoOn",
    "Interlude",
    "LoopFinding",
    "Matrix",
    "MaxRounds",
    "Minimal",
    "OnlyBlockedCalls",
    "OpenTodos",
    "PlanningLoop",
    "Policy",
    "PolicySet",
    "PolicyBundle",
    "SaidTooOften",
    "Stop",
    "TodoNudges",
    "Verdict",
    "WorkflowMode",
    "call_announced",
    "call_in_words",
    "decide",
    "empty_answer",
    "find_policy",
    "in_workflow_mode",
    "natural_stop",
    "no_call_came",
    "no_room",
    "paused",
    "person_spoke",
    "refused",
    "reply_cut",
    "settings_of",
    "stuck",
    "two_empty_answers",
]

if not TYPE_CHECKING:  # type checkers would treat every name as Any, even misspelled ones
    __getattr__ = module_getattr(__name__, __all__)
