"""Similarity of a run's rounds, as a map of all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from agentnb.core.messages import pluralize
from agentnb.core.run.rounds import WorkflowRound
from agentnb.interchange.files import RunSource
from agentnb.plots.drawing.plot_style import empty, finish, panels, plot_style, whole_ticks
from agentnb.plots.drawing.sources import about, one_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Similarity of rounds"
MAX_ROUNDS = 300
"""Maximum number of rounds compared, spread over the run, since the map has the square of this number of cells."""
MAX_COMPARED = 500
"""Maximum number of characters of a round that are compared."""


def similarity(source: RunSource) -> Figure:
    """Draw the similarity of all pairs of rounds, in per cent of their characters (rapidfuzz).

    Rounds with calls are compared by their calls and the beginnings of the results, other rounds by their replies. A
    loop appears as a block, or as lines parallel to the diagonal. Takes a single run; raises `SettingsError` for
    several.
    """
    run = one_run(source, "similarity")
    texts = [(run_round.index + 1, text) for run_round in run.rounds if (text := _text_of(run_round))]
    if len(texts) < 2:
        return empty(TITLE, about([run], pluralize(len(run.rounds), "round")), "The run has fewer than two rounds to compare.")
    step = -(-len(texts) // MAX_ROUNDS)
    shown = texts[::step]
    with plot_style():
        from rapidfuzz import fuzz, process

        table = process.cdist([text for _, text in shown], [text for _, text in shown], scorer=fuzz.ratio)
        figure, (axes,) = panels(5.2)
        image = axes.imshow(table, cmap="cividis", vmin=0, vmax=100, interpolation="nearest", origin="lower")
        places = [index - 1 for index in whole_ticks(1, len(shown), 12)]
        labels = [str(shown[index][0]) for index in places]
        axes.set_xticks(places, labels)
        axes.set_yticks(places, labels)
        axes.grid(visible=False)
        axes.set_xlabel("round")
        axes.set_ylabel("round")
        bar = figure.colorbar(image, ax=axes, label="similarity, per cent", shrink=0.8)
        marks = range(0, 101, 20)
        bar.set_ticks([*marks], labels=[str(mark) for mark in marks])  # set now, in our style
        pairs = [(float(table[i][j]), shown[j][0], shown[i][0]) for i in range(len(shown)) for j in range(i)]
        similar_count = sum(share >= 80 for share, *_ in pairs)
        best, first, second = max(pairs, key=lambda pair: pair[0])
        says = f"{similar_count:,} of {len(pairs):,} pairs are at least 80 % similar; rounds {first} and {second}: {best:.0f}"
        notes = [f"One round in {step} is drawn."] if step > 1 else []
        return finish(figure, TITLE, about([run], f"n = {pluralize(len(shown), 'round')}"), (), notes, says)


def _text_of(run_round: WorkflowRound) -> str:
    if not run_round.records:
        return run_round.text.strip()[:MAX_COMPARED]
    parts = [
        f"{record.call.name} {msgspec.json.encode(record.call.arguments, order='sorted').decode()} "
        f"{record.result.text[: MAX_COMPARED // 2] if record.result is not None else ''}"
        for record in run_round.records
    ]
    return "\n".join(parts)[:MAX_COMPARED]
