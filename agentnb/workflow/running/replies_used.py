"""How many replies of each script a run has used, by its log and those of its nested runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from agentnb.core.log import work_events as w
from agentnb.core.log.stores import ReopeningStore
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.runtime.event_log import EventLog


def replies_used(log: EventLog, script_of: Callable[[str, str], str]) -> Counter[str]:
    """Return for each script how many of its replies the agents of the run have used.

    ``script_of``: returns the script for the path of a step and the name of its agent. A reply that came when the process died,
    and was not logged, has not been used. Those of a run that this one continues do not count.
    """
    used: Counter[str] = Counter()
    store = log.store
    if not isinstance(store, ReopeningStore):
        return used
    for event in log.run.events:
        if isinstance(event, w.StepStarted) and event.nested and event.step_kind == "agent" and store.has(event.nested):
            run: Run = store.load(event.nested)
            if run.parent_id == log.id:
                used[script_of(event.step, event.agent)] += sum(_is_answered(run, one) for one in run.rounds)
                for sub_agent in _delegated(run, store):
                    used[script_of("", sub_agent.agent)] += len(sub_agent.rounds)
    return used


def _delegated(run: Run, store: ReopeningStore) -> Iterator[Run]:
    """Yield the nested runs of the calls of a run that have ended, at any depth."""
    for one in run.rounds:
        for begun in (begun for call in one.records for begun in call.nested if store.has(begun.run_id)):
            if (inner := store.load(begun.run_id)).parent_id == run.id:  # else a log names a run that is none of it, as its own
                yield inner
                yield from _delegated(inner, store)


def _is_answered(run: Run, one: WorkflowRound) -> bool:
    """Return whether the model gave a reply, or an error, which is logged before the round ends with it."""
    return one.reply is not None or one.status == "error" or (run.error is not None and one is run.open_round)
