"""The result of a search as HTML and as text."""

from __future__ import annotations

from made_results import results_of

from agentnb import compare
from agentnb.experiments.search.candidates import Line, Proposal, candidate_of
from agentnb.experiments.search.proposals import Trial
from agentnb.experiments.search.search_result import Ablation, SearchResult
from agentnb.experiments.search.search_view import search_html, search_text

EVIL = "<img src=x>"
START, BEST = candidate_of({}), candidate_of({"text": EVIL})
TRIALS = (
    Trial(Proposal("text", EVIL), True, "ahead at look 3 of 3", BEST.name, 0.25),
    Trial(Proposal("text", "", EVIL), False, f"it is worse on {EVIL}, listed in keep=", START.name),
    Trial(None, False, "the proposer named no part"),
)


def result_of(best: list[float], ablations: tuple[Ablation, ...] = ()) -> SearchResult:
    (judgement,) = compare(results_of({"start": [0] * 12, "best": best}))
    return SearchResult("5ea7c4", START, BEST, TRIALS, judgement, ablations, 44, 0.125, (f"stopped by {EVIL}",))


def test_search_shows_its_gain_and_the_result_of_each_proposal() -> None:
    gained = result_of([1] * 8 + [0, 0, 1, 0], (Ablation(Line("text", EVIL), None),))
    html, text = search_html(gained), search_text(gained)
    shown = html.replace("&lt;", "<").replace("&gt;", ">")
    for words in (
        gained.extent,
        "best minus start",
        "+0.25",
        *[trial.why for trial in TRIALS],
        f"nothing, in place of: {EVIL}",
        "not tried without it: the budget was reached",
        f"stopped by {EVIL}",
        "paired by task",
    ):
        assert words in shown, words
    assert EVIL not in html and "No gain" not in html + text and gained.extent in text


def test_search_without_a_significant_difference_claims_no_gain() -> None:
    assert "No gain is claimed" in search_html(result_of([1, 0] * 3 + [0] * 6))
    unjudged = SearchResult("5ea7c4", START, START, (), None, (), 4, 0.0)
    assert "No gain is claimed" in search_html(unjudged) and "paired by task" not in search_html(unjudged)
