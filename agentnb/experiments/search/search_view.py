"""The result of a search as HTML and as text."""

from __future__ import annotations

from agentnb.experiments.results.comparison import comparison_lines, format_difference
from agentnb.experiments.search.proposals import Trial
from agentnb.experiments.search.search_result import NO_GAIN, SearchResult
from agentnb.experiments.views.comparison_view import comparison_html
from agentnb.experiments.views.layout import notes_html, sentence_html, table_html, text_of, view_html


def search_html(result: SearchResult) -> str:
    """Render the gain, the proposals with their results, the effect of each new line, and the judgement."""
    judgement = result.judgement
    gain = comparison_lines(judgement)[0] if judgement is not None and result.claims_gain else NO_GAIN
    lines = [[ablation.line.part, ablation.line.text, ablation.effect] for ablation in result.ablations]
    search = view_html(
        "Search",
        f"{result.id} · {result.extent}",
        sentence_html(gain),
        table_html(["part", "proposed line", "outcome", "difference"], map(_proposal, result.trials), numbers=(3,)),
        table_html(["part", "line of the best set", "effect"], lines) if lines else "",
        notes_html(result.notes),
    )
    return search if judgement is None else search + comparison_html(judgement)


def search_text(result: SearchResult) -> str:
    """Render the gain and the effect of each new line as text."""
    return text_of([repr(result)])


def _proposal(trial: Trial) -> list[str]:
    proposal = trial.proposal
    part, line = ("", "") if proposal is None else (proposal.part, proposal.line)
    if proposal is not None and proposal.replaces:
        line = f"{line or 'nothing'}, in place of: {proposal.replaces}"
    difference = "" if trial.difference is None else format_difference(trial.difference)
    return [part, line, trial.why, difference]
