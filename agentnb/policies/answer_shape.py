"""Answers with a shape: an answer that does not fit its schema is told so, and sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from agentnb.advice import TryAgain
from agentnb.core.run.output import answer_of, read_output
from agentnb.detect.run import Run
from agentnb.guidance.prompts import prompt
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.verdict import Continue, Policy, Stop, Verdict

INVALID_OUTPUT = "invalid_output"
"""Reason of a round that follows an answer that does not fit, and the stop reason when the retries are used up."""


def _accepts_all(value: Any) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """Holds the answers of a run to a JSON Schema.

    ``retries``: how often a model is told what is wrong since the person last spoke; then the run fails. ``check``: returns
    what else is wrong with a value that fits the schema, such as what only the agent's type knows.
    """

    schema: dict[str, Any]
    retries: int = 2
    check: Callable[[Any], tuple[str, ...]] = _accepts_all

    def over(self, bundle: PolicyBundle) -> PolicyBundle:
        """Return the bundle with each of its policies held to the shape, whatever it is: none may complete a run without it."""
        return bundle._replace(policies=tuple([HeldToShape(policy, self) for policy in bundle.policies]))

    def problems(self, run: Run) -> tuple[str, ...]:
        """Return what is wrong with the answer in the last round; empty if it fits."""
        output = read_output(answer_of(run.last_round, run.text), self.schema)
        return output.problems or self.check(output.value)

    def verdict(self, run: Run, stop: Stop) -> Verdict:
        """Return the stop if the answer fits; otherwise tell the model, or fail the run."""
        if run.last_round.records:  # a model may say beside its calls that it is done; its answer is still to come
            return Continue("tool_results")
        problems = self.problems(run)
        if not problems:
            return stop
        if _retries(run) < self.retries and stop.loop is None:
            message = prompt("output_refused").replace("{{ problems }}", "\n".join(_listed(problems)))
            return Continue(INVALID_OUTPUT, message, round_status=INVALID_OUTPUT)
        return Stop(
            INVALID_OUTPUT,
            "failed",
            problem=f"The answer does not fit the output: {'; '.join(problems)}",
            hint=TryAgain(
                lead="The answer is in run.text; try again",
                rest=", allow more retries: Output(T, retries=5), or try another model",
            ),
            loop=stop.loop,
        )


@dataclass(frozen=True, slots=True)
class HeldToShape:
    """A policy whose verdict counts as long as it does not complete a run without an answer of the shape."""

    policy: Policy
    shape: AnswerShape

    def __call__(self, run: Run) -> Verdict | None:
        """Return the policy's verdict, or that of the shape."""
        verdict = self.policy(run)
        if not isinstance(verdict, Stop):
            return verdict
        # A model that repeats an answer that was refused does not loop, it fails to give one.
        repeats = verdict.loop is not None and run.last_round.reason == INVALID_OUTPUT and not run.last_round.records
        return self.shape.verdict(run, verdict) if verdict.status == "completed" or repeats else verdict


def _retries(run: Run) -> int:
    """Return how often an answer was refused since the person last spoke."""
    count = 0
    for round_ in reversed(run.rounds):
        if round_.reason in ("prompt", "said"):
            break
        count += round_.reason == INVALID_OUTPUT
    return count


def _listed(problems: tuple[str, ...]) -> Iterator[str]:
    return (f"- {problem}" for problem in problems)
