"""Structured answers: an answer that violates its schema is returned to the model with the problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentnb.advice import TryAgain
from agentnb.core.run.run_output import answer_of, read_output
from agentnb.detect.run import Run
from agentnb.guidance.prompts import prompt
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.verdict import Continue, Policy, Stop, Verdict

INVALID_OUTPUT = "invalid_output"
"""Reason for a round after an invalid answer, and stop reason once the retries are used up."""


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """Validates the answers of a run against a JSON Schema.

    ``retries``: number of corrections requested, since the person last spoke, before the run fails. ``check``: returns
    further problems with a value that matches the schema, such as those that only the agent's type detects.
    """

    schema: dict[str, Any]
    retries: int = 2
    check: Callable[[Any], tuple[str, ...]] = lambda value: ()

    def over(self, bundle: PolicyBundle) -> PolicyBundle:
        """Return the bundle with each policy wrapped, so that none can complete a run with an invalid answer."""
        return bundle._replace(policies=tuple([ShapedPolicy(policy, self) for policy in bundle.policies]))

    def problems(self, run: Run) -> tuple[str, ...]:
        """Return the problems with the answer of the last round; empty for a valid one."""
        output = read_output(answer_of(run.last_round, run.text), self.schema)
        return output.problems or self.check(output.value)

    def verdict(self, run: Run, stop: Stop) -> Verdict:
        """Return the stop for a valid answer; otherwise continue with the problems, or fail the run."""
        if run.last_round.records:  # a model may say that it is done beside its calls, before its answer
            return Continue("tool_results")
        problems = self.problems(run)
        if not problems:
            return stop
        if _retries(run) < self.retries and stop.loop is None:
            listed = "\n".join(f"- {problem}" for problem in problems)
            message = prompt("output_refused").replace("{{ problems }}", listed)
            return Continue(INVALID_OUTPUT, message, round_status=INVALID_OUTPUT)
        return Stop(
            INVALID_OUTPUT,
            "failed",
            problem=f"The answer does not match the required output: {'; '.join(problems)}",
            hint=TryAgain(
                lead="The answer is in run.text; try again",
                rest=", allow more retries: Output(T, retries=5), or try another model",
            ),
            loop=stop.loop,
        )


@dataclass(frozen=True, slots=True)
class ShapedPolicy:
    """Wraps a policy. Its verdict counts unless it would complete a run with an invalid answer."""

    policy: Policy
    shape: AnswerShape

    def __call__(self, run: Run) -> Verdict | None:
        """Return the verdict of the policy, or that of the validation."""
        verdict = self.policy(run)
        if not isinstance(verdict, Stop):
            return verdict
        # Repeating a refused answer is not a loop but a failure to produce a valid one.
        repeats = verdict.loop is not None and run.last_round.reason == INVALID_OUTPUT and not run.last_round.records
        return self.shape.verdict(run, verdict) if verdict.status == "completed" or repeats else verdict


def _retries(run: Run) -> int:
    """Return the number of refused answers since the person last spoke."""
    count = 0
    for round_ in reversed(run.rounds):
        if round_.reason in ("prompt", "said"):
            break
        count += round_.reason == INVALID_OUTPUT
    return count
