"""The list of runs as buttons, for where a click opens one: the panel."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.display.history import asked_html, cost_told, status_html
from agentnb.display.labels import clean, counted, first_line
from agentnb.display.markup import Html, joined, tag
from agentnb.traces.summaries import RunSummary


def run_list_html(found: Sequence[RunSummary]) -> Html:
    """A button for each run, which names it in ``data-run``; newest first, as they come."""
    if not found:
        return tag("p", "runs-none", "No run yet. Those of cells and of this panel will stand here.")
    return tag("ol", "runs", *map(_row, found))


def _row(one: RunSummary) -> Html:
    when = one.started_at.astimezone()
    first = tag(
        "span",
        "runs-line",
        status_html(one),
        " ",
        tag("time", "runs-when", f"{when:%d %b %H:%M}", title=f"{when:%Y-%m-%d %H:%M:%S}"),
    )
    figures = (
        [] if one.status == "running" else [counted(one.rounds, "round"), cost_told(one)]
    )  # its card has them as they grow
    told = [*figures, *(["recovered"] if one.recovered else []), first_line(clean(one.model.partition("?")[0]), 40)]
    pieces = (first, " ", tag("span", "runs-asked", asked_html(one)), " ", tag("span", "runs-told", " · ".join(told)))
    return tag("li", "runs-item", tag("button", "runs-run", joined(*pieces), type="button", data_run=one.id))
