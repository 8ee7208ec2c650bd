"""Small experiments: personas that check lines, under guidance sets that ask for calls or do not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentnb.detect.run import Run
from agentnb.experiments.experiment import Experiment
from agentnb.experiments.running.control import Progress
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.verdict import Stop

CHATTY = "simulated:chatty?p=0.5&heed=0.5"
PLAIN = {"off": "off", "matrix": "matrix"}
ASKS = dict.fromkeys(("todos_text", "todos_tools", "text", "tools"), "Call the tool now.")
"""A set of which only the words ask for a call."""


def check_line(name: str) -> str:
    """Check a line of the plant."""
    return f"{name} ok"


def was_called(run: Run) -> bool:
    return any(record.call.name == "check_line" for one in run.rounds for record in one.records)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"t{place}", "prompt": f"Do this.\n\n- Check `check_line('{place}')`"} for place in range(count)]


class TwoRounds:
    """Ends a run as completed after two rounds: the first writes the list, the second does its step, or talks."""

    name = "two_rounds"

    def rules(self, words: GuidanceSet, *limits: Any, repeatable: Any = ()) -> PolicyBundle:
        from agentnb.policies.policy_sets import Matrix

        bundle = Matrix().rules(words, *limits, repeatable=repeatable)
        return bundle._replace(policies=(_after_two, *bundle.policies))


def _after_two(run: Any) -> Stop | None:
    return Stop("workflow_complete", "completed") if len(run.rounds) >= 2 else None


def small(count: int = 6, variants: Any = None, **settings: Any) -> Experiment:
    given: dict[str, Any] = {
        "models": [CHATTY],
        "agent": {"tools": [check_line], "policy": TwoRounds()},
        "primary": was_called,
        "folder": False,
    }
    return Experiment(rows(count), PLAIN if variants is None else variants, **{**given, **settings})


def run_or_die(folder: Path, calls: int = 99, cells: int = 99) -> None:
    """Run six tasks in a process that dies after so many calls of a tool, or after so many cells."""
    left = iter(range(calls))  # the content of an experiment is the same for any number

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        if next(left, None) is None:
            os._exit(9)
        return f"{name} ok"

    def watch(progress: Progress) -> None:
        if progress.done == cells:
            os._exit(9)

    small(6, folder=folder, agent={"tools": [check_line], "policy": TwoRounds()}).run_sync(show=False, watch=watch)
