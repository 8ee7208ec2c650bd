"""The expectations of a run, each with its outcome once the run has ended."""

from __future__ import annotations

from agentnb.detect.run import Run
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.parts.head import MARKS
from agentnb.display.texts.labels import clean, cut
from agentnb.rerun.expect import logged_outcomes

MAX_OF_A_LINE = 600
TONES = {True: "good", False: "bad"}
TITLE = {True: "As expected", False: "Not as expected"}


def expectations_html(run: Run) -> Html:
    """Return a line for each expectation of the run's cell; empty before the end, or if the run has no expectations."""
    outcomes = logged_outcomes(run)
    if not outcomes:
        return NOTHING
    kept = all(outcome.holds for outcome in outcomes)
    lines = [
        tag("div", "", tag("b", TONES[outcome.holds], MARKS[TONES[outcome.holds]]), " ", words(outcome.sentence, MAX_OF_A_LINE))
        for outcome in outcomes
    ]
    return tag("div", f"why why-{TONES[kept]}", tag("b", TONES[kept], f"{TITLE[kept]}:"), *lines)


def expectation_lines(run: Run) -> list[str]:
    """Return the expectations as text, such as ``✗ loops == 0: loops is 2, broken in round 4``."""
    return [f"{MARKS[TONES[outcome.holds]]} {cut(clean(outcome.sentence), MAX_OF_A_LINE)}" for outcome in logged_outcomes(run)]
