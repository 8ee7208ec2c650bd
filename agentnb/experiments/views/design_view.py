"""Designs and pilots as HTML and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agentnb.display.markup import Html
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.experiments.design import (
    AROUND,
    DRAWS,
    FEW_PILOT_TASKS,
    NOT_COPIED,
    Design,
    describe_effect,
    describe_looks,
    describe_price,
    describe_rates,
    describe_reserve,
    describe_shape,
    explain_ground,
    list_sandboxes,
    suggest_next,
)
from agentnb.experiments.pilot import Pilot
from agentnb.experiments.planning.experiment_tasks import list_names
from agentnb.experiments.views.layout import facts_html, facts_text, hint_html, sentence_html, text_of, view_html
from agentnb.experiments.views.numbers import UNKNOWN, format_time, money

MAX_NAMES = 12
NO_MEANS = "Means by variant are not shown: they would bias the plan. For the design with these estimates: EXPERIMENT.design()"


def design_html(design: Design) -> Html:
    """Render a design: its runs, cost and detectable effect."""
    return view_html(
        "Design",
        describe_shape(design),
        sentence_html(_effect(design)),
        facts_html(_design_facts(design)),
        hint_html(suggest_next(design)),
    )


def design_text(design: Design) -> str:
    """Render a design as text."""
    hint = [*filter(None, [suggest_next(design)])]
    return text_of([f"Design · {describe_shape(design)}", _effect(design), *facts_text(_design_facts(design)), *hint])


def pilot_html(pilot: Pilot) -> Html:
    """Render a pilot's estimates of variance, cost and time."""
    return view_html("Pilot", _pilot_about(pilot), facts_html(_pilot_facts(pilot)), hint_html(NO_MEANS))


def pilot_text(pilot: Pilot) -> str:
    """Render a pilot as text."""
    return text_of([f"Pilot · {_pilot_about(pilot)}", *facts_text(_pilot_facts(pilot)), NO_MEANS])


def _effect(design: Design) -> str:
    if design.minimum_effect is not None and design.pilot_tasks:
        more = "up to twice as large" if design.pilot_tasks <= FEW_PILOT_TASKS else "larger"
        pilot = f"estimated by a pilot of {pluralize(design.pilot_tasks, 'task')}; the true value may be {more}"
        return f"A difference of about {design.minimum_effect:.2g} is detected with 80 % power ({pilot})."
    if design.minimum_effect is not None:
        return f"A difference of {design.minimum_effect:.2g} is detected with 80 % power{describe_rates(design)}."
    return f"The minimum detectable effect is unknown: {explain_ground(design)}."


def _design_facts(design: Design) -> Iterator[tuple[str, str, str]]:
    yield "Variants", _names(design.variants), ""
    if design.models:
        yield "Models", _names(design.models), ""
    yield "Minimum detectable effect", describe_effect(design), explain_ground(design)
    if design.looks:
        yield "Looks", describe_looks(design), describe_price(design.price)
    if design.sandboxes:
        yield AROUND, list_sandboxes(design.sandboxes), ""
    if design.left_out:
        yield NOT_COPIED, list_names(design.left_out), f"{len(design.left_out):,} in all"
    yield "Cost", money(design.cost), "" if design.cost is None else "for all runs"
    if design.budget is not None:
        yield "Budget", money(design.budget), describe_reserve(design)
    yield "Time", format_time(design.seconds), "" if design.seconds is None else "estimated by the pilot"
    if design.unseeded:
        yield "Without a seed", _names(design.unseeded), DRAWS


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _pilot_about(pilot: Pilot) -> str:
    return f"{pluralize(pilot.runs, 'run')} of {pluralize(pilot.tasks, 'task')}, never part of the result"


def _pilot_facts(pilot: Pilot) -> Iterator[tuple[str, str, str]]:
    deviation = pilot.deviation(1)
    yield "Standard deviation of task differences", UNKNOWN if deviation is None else f"{deviation:.2f}", "with one repeat"
    clustering = UNKNOWN if pilot.clustering is None else f"{pilot.clustering:.2f}"
    yield "Clustering", clustering, "correlation of repeats of a task: 0 none, 1 identical"
    yield "Cost per run", money(pilot.cost), ""
    yield "Time per run", format_time(pilot.seconds), ""
    for reason, count in Counter(reason for _, reason in pilot.reasons).most_common(MAX_NAMES):
        yield "Did not complete", f"{count}: {first_line(reason, 160)}", ""
