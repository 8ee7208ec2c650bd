"""What to do when a round is over: pure functions of the run so far, asked in order; the first verdict wins."""

from agentnb.agent.policies.ending import (
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
from agentnb.agent.policies.limits import MaxRounds
from agentnb.agent.policies.loops import OnlyBlockedCalls, SaidTooOften
from agentnb.agent.policies.markers import Complete, GoOn, stuck
from agentnb.agent.policies.named import NAMED, Matrix, Minimal, PolicySet, find_policy, in_workflow_mode, settings_of
from agentnb.agent.policies.planning import PlanningLoop
from agentnb.agent.policies.rules import Rules
from agentnb.agent.policies.todos import OpenTodos, TodoNudges
from agentnb.agent.policies.verdict import Continue, Loop, Policy, Stop, Verdict, decide
from agentnb.agent.policies.workflow import WorkflowMode

__all__ = [
    "NAMED",
    "Complete",
    "Continue",
    "GoOn",
    "Loop",
    "Matrix",
    "MaxRounds",
    "Minimal",
    "OnlyBlockedCalls",
    "OpenTodos",
    "PlanningLoop",
    "Policy",
    "PolicySet",
    "Rules",
    "SaidTooOften",
    "Stop",
    "TodoNudges",
    "Verdict",
    "WorkflowMode",
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
