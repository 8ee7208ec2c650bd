"""Records the usage of sub-agents in other products' runs in the same way as agentnb's own logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from agentnb.core.log import events as e
from agentnb.core.usage import COST_DIGITS, NOTHING_USED
from agentnb.detect.run import Run
from agentnb.errors import TraceError


def with_nested_usage(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield the runs of a session or trace, outer runs first, each including the usage of its nested runs."""
    read: list[Run] = []
    try:
        for run in runs:
            read.append(run)  # noqa: PERF402  # of a trace that breaks off, the runs before are kept
    except TraceError:
        yield from _add_all(read)
        raise
    yield from _add_all(read)


def _add_all(runs: list[Run]) -> list[Run]:
    """Add the usage of nested runs to each run."""
    if len(runs) < 2:
        return runs
    nested: dict[str, list[Run]] = {}
    done: list[Run] = []
    for run in reversed(runs):  # inner runs before outer ones
        inner_runs = nested.pop(run.id, [])
        complete = _add_usage(run, inner_runs)
        done.append(complete)
        if run.parent_id is not None:
            nested.setdefault(run.parent_id, []).extend([*inner_runs, complete])
    return done[::-1]


def _add_usage(run: Run, nested: list[Run]) -> Run:
    """Return the run with usage events for these nested runs, unless its own log already has them."""
    paid = [inner for inner in reversed(nested) if inner.own_usage != NOTHING_USED and inner.id not in run.nested_usage]
    if run.origin is None or not paid:
        return run
    events: list[e.AnyEvent] = [*run.events]
    total = run.own_cost if run.origin.has_nested_cost else None
    costs = [inner.own_cost for inner in paid]
    nested_cost = sum(cost for cost in costs if cost is not None)
    is_split = total is not None and None not in costs and nested_cost <= total
    if total is not None and is_split:  # split the total among the nested runs
        own = replace(run.own_usage, cost=round(total - nested_cost, COST_DIGITS))
        events[0] = replace(run.opening, origin=replace(run.origin, usage=own, has_nested_cost=False))
    is_in_total = total is not None and not is_split
    position = len(events) - isinstance(events[-1], e.RunFinished)
    events[position:position] = [_event(run, inner, is_in_total) for inner in paid]
    complete = Run.from_events([replace(event, seq=seq) for seq, event in enumerate(events)])
    complete.mark_interrupted()  # unless it has an end
    return complete


def _event(run: Run, nested: Run, is_in_total: bool) -> e.ExtraUsage:
    """Return the usage event for a nested run; its cost is 0 if the outer run's total includes it."""
    used = replace(nested.own_usage, cost=0.0) if is_in_total else nested.own_usage
    dollars = 0.0 if is_in_total else nested.own_spent
    return e.ExtraUsage(
        seq=0, at=None, run_id=run.id, parent_id=run.parent_id, inside=dollars, nested_run=nested.id, nested=used
    )
