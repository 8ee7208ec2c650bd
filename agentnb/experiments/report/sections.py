"""The sections of a report, built from comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from agentnb.experiments.planning.variants import is_persona
from agentnb.experiments.report.document import Block, Bullets, Document, Facts, Grid, Heading, Paragraph
from agentnb.experiments.report.flow import flow_alone, flow_of
from agentnb.experiments.report.lift_section import NO_VARIANT, lift_of, names_of
from agentnb.experiments.report.methods import add_date, methods_of
from agentnb.experiments.report.report_figures import figures_of
from agentnb.experiments.report.setup import Setup
from agentnb.experiments.report.source import code_of
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.record_notes import comparison_notes
from agentnb.experiments.results.rows import STATES
from agentnb.experiments.views.comparison_facts import estimate, facts, heading, sensitivity, shares, states_of, verdict
from agentnb.experiments.views.results_view import NO_DIFFERENCE, means_of

LIMITS = (
    "The claim applies to these tasks, models, variants and versions, and to others only as far as they are similar.",
    "Cost, tokens, time, loops, further checks and sensitivity analyses are secondary: their intervals and p values are not"
    " adjusted for each other or for planned looks.",
    "A result without a difference does not prove equality: one below the minimum detectable effect is often missed.",
)
OF_EARLY_LOOKS = "A difference shown at an early look is on average too large; quote its interval."
OF_COMPLETED = (
    "Completion can depend on the variant, so the comparison of completed runs is not randomised: it checks the first analysis,"
    " and shows no effect of its own."
)
OF_PERSONAS = "All models are simulated personas: their results say nothing about language models."


def report_of(results: Results, comparisons: Sequence[Comparison], setup: Setup, data: Sequence[Block], tasks: str) -> Document:
    """Build the report. ``data``: entries for the data files; ``tasks``: path of the file that holds the tasks."""
    names = ", ".join(names_of(results, setup))
    parts = (
        _summary(results, comparisons),
        methods_of(results, setup),
        _flow(results, comparisons, setup),
        _estimates(results, comparisons),
        [Heading("Figures"), *figures_of(results, comparisons)],
        _deviations(results, comparisons),
        _sensitivity(comparisons),
        _limits(results, comparisons),
        [Heading("Data"), *data],
        [Heading("Reproducing the experiment"), *code_of(setup, tasks)],
    )
    return Document(f"Experiment {results.plan.id}: {names}", [*chain.from_iterable(parts)])


def _summary(results: Results, comparisons: Sequence[Comparison]) -> Iterator[Block]:
    for comparison in comparisons:
        primary = "" if shares(comparison) else f", {comparison.primary}"  # the verdict names it with the means
        yield Paragraph(f"{heading(comparison)[0]}{primary}: {verdict(comparison)}{estimate(comparison)}")
    if not comparisons:
        yield Paragraph(NO_VARIANT if results.is_by_round else "There is one variant, so nothing is compared.")


def _flow(results: Results, comparisons: Sequence[Comparison], setup: Setup) -> Iterator[Block]:
    yield Heading("Flow of runs")
    if not comparisons:
        yield flow_alone(results, setup.planned)
    for comparison in comparisons:
        yield from _make_heading(comparison, comparisons)
        yield flow_of(comparison, setup.planned)
        headings, rows = states_of(comparison)
        if len(headings) > 1 + len(STATES):
            yield Grid([headings[0], headings[-1]], [[row[0], row[-1]] for row in rows])
    yield Paragraph(
        "Failed runs were ended by the provider, a kill or a person. A reply that was cut off counts as not passed, though the"
        " status of its run in the data is failed, too. A run is left out if its partner has no value."
    )
    ended = [f"{reason} ({count:,})" for reason, count in results.failures.items()]
    if ended:
        yield Paragraph(f"Runs that did not complete, by reason: {', '.join(ended)}.")


def _make_heading(comparison: Comparison, comparisons: Sequence[Comparison]) -> list[Block]:
    """Return the heading of a comparison if there are several, otherwise nothing."""
    return [Heading(heading(comparison)[0], is_inner=True)] if len(comparisons) > 1 else []


def _estimates(results: Results, comparisons: Sequence[Comparison]) -> Iterator[Block]:
    yield Heading("Estimates")
    headings, rows = means_of(results)
    yield Grid(headings, rows, range(1, len(headings)))
    yield Paragraph(f"{NO_DIFFERENCE}.")
    if results.is_by_round:
        yield from lift_of(results)
    for comparison in comparisons:
        yield from _make_heading(comparison, comparisons)
        yield Paragraph(verdict(comparison))
        varied = [*sensitivity(comparison)]
        yield Facts([fact[:3] for fact in facts(comparison) if fact not in varied])


def _deviations(results: Results, comparisons: Sequence[Comparison]) -> Iterator[Block]:
    yield Heading("Deviations from the plan")
    deviations = [add_date(note.text, note.at) for note in results.deviations]
    chosen = comparisons[0].primary if comparisons else results.primary
    deviations += comparison_notes(results.plan, chosen, len(results.variants), len(comparisons))
    yield Bullets(deviations) if deviations else Paragraph("None recorded.")
    texts = [note.text for note in results.deviations]
    if others := [note for note in results.notes if note not in texts]:
        yield Paragraph("Also recorded:")
        yield Bullets(others)


def _sensitivity(comparisons: Sequence[Comparison]) -> Iterator[Block]:
    if comparisons:
        yield Heading("Sensitivity")
    for comparison in comparisons:
        yield from _make_heading(comparison, comparisons)
        varied = [*sensitivity(comparison)]
        if varied:
            yield Facts([fact[:3] for fact in varied])
        if varied and not all(row.is_completed for row in (*comparison.rows_a, *comparison.rows_b)):
            yield Paragraph(OF_COMPLETED)
        if comparison.robustness:
            yield Paragraph(f"{comparison.robustness}.")
        if not varied:
            yield Paragraph(
                (comparison.missing and f"{comparison.missing}.") or "No value is missing, and every run completed."
            )


def _limits(results: Results, comparisons: Sequence[Comparison]) -> Iterator[Block]:
    yield Heading("Limits of the claim")
    are_personas = all(is_persona(row.model) for row in results.rows)
    warnings = dict.fromkeys(f"{heading(comparison)[0]}: {text}" for comparison in comparisons for text in comparison.warnings)
    is_early = results.look is not None and not results.look.is_last
    further = [*([OF_EARLY_LOOKS] if is_early else []), *([OF_PERSONAS] if are_personas else [])]
    yield Bullets([*LIMITS, *further, *warnings])
