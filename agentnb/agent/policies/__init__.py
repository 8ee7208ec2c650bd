"""What to do when a round is over: pure functions of the run so far, asked in order; the first verdict wins."""

from agentnb.agent.policies.ending import natural_stop, no_call_came, refused, reply_cut
from agentnb.agent.policies.limits import MaxRounds
from agentnb.agent.policies.verdict import Continue, Policy, Stop, Verdict, decide

__all__ = [
    "Continue",
    "MaxRounds",
    "Policy",
    "Stop",
    "Verdict",
    "decide",
    "natural_stop",
    "no_call_came",
    "refused",
    "reply_cut",
]
