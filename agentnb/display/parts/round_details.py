"""The context of a round's reply and calls, as HTML: unobtrusive if it is routine, otherwise a warning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentnb.core.compaction_records import Compaction
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.guidance_rules import INTERVENTION
from agentnb.display.form import Form
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.texts.labels import pluralize
from agentnb.display.texts.round_notes import (
    RECOVERED,
    compaction_line,
    guidance_line,
    guidance_with_verdicts,
    ignored_guidance,
    retry_line,
)

MAX_OF_A_SUMMARY = 100_000
MAX_OF_AN_AUTHOR = 100
MAX_ALSO = 4
"""Maximum lines about other events shown unfolded."""
SAW = "what the model saw"


def fold(
    key: str, summary: Html | str, body: Html, form: Form, kind: str = "quiet-fold", tone: str = "quiet", **about: str
) -> Html:
    """Fold content into one line, which is unobtrusive unless ``tone`` says otherwise."""
    return fold_tag(kind, tone, summary, body, data_fold=key, open=form.is_open(key), **about)


def odd(sentence: Html | str) -> Html:
    """Return a conspicuous line."""
    return tag("div", "odd", sentence)


def saw_html(one: WorkflowRound, saw: Html, form: Form) -> Html:
    """Return a round's guidance as a line that expands to the round's request. Guidance that was ignored is conspicuous.

    A saved card shows other guidance in its details rather than in the round.
    """
    ignored = ignored_guidance(one)
    if not (ignored or form.live or form.details):
        return NOTHING
    key, tone, line = f"saw:{one.index}", "ignored" if ignored else "quiet", _ignored_line(ignored) if ignored else _line(one)
    if form.live:
        fill = tag("div", "", data_fill=f"saw:{one.index}")
        detail = fold(key, line, fill, form, "saw", tone, data_ask="saw", data_round=str(one.index))
    else:
        detail = fold(key, line, saw, form, "saw", tone) if saw else tag("div", tone, line)
    return odd(detail) if ignored else tag("div", "detail", detail)


def saw_detail(one: WorkflowRound, saw: Html, form: Form) -> Html:
    """Return a round's line in the details of a saved card. It has the guidance, and expands to the request."""
    line = join_html(f"Round {one.index + 1}: ", _line(one))
    return fold(f"saw:{one.index}", line, saw, form, "saw") if saw else tag("div", "quiet", line) if one.guidance else NOTHING


def _ignored_line(ignored: Sequence[tuple[Guidance, Followed]]) -> Html:
    reasons = "; ".join(dict.fromkeys(verdict.why for _, verdict in ignored))
    noun = "intervention" if any(guidance.cell == INTERVENTION for guidance, _ in ignored) else "guidance"
    return join_html(tag("b", "warn", f"Ignored {noun}: "), f"{reasons} · {SAW}")


def _line(run_round: WorkflowRound) -> str:
    return " · ".join([*[guidance_line(*pair) for pair in guidance_with_verdicts(run_round)], SAW])


def recovered_html() -> Html:
    """Return a line saying that the run was resumed in this round."""
    return tag("div", "quiet", f"↻ {RECOVERED}")


def also_html(lines: Sequence[str], key: str, form: Form) -> Html:
    """Return lines about other events, folded if there are many."""
    listed = join_html(*[tag("div", "quiet", f"· {line}") for line in lines])
    if len(lines) <= MAX_ALSO:
        return listed
    title = f"· {pluralize(len(lines), 'other event')}"
    return fold_tag("quiet-fold", "quiet", title, listed, data_fold=key, open=form.is_open(key, form.whole))


def author_html(author: str) -> Html:
    """Return the author of a message in a shared conversation."""
    return tag("div", "quiet", tag("b", "", words(author, MAX_OF_AN_AUTHOR))) if author else NOTHING


def said_html(messages: Iterable[str], *, by_you: bool = True) -> Html:
    """Return the messages sent to the agent in a round by the person or, in a foreign run, by its users."""
    return join_html(*[tag("div", "said", tag("b", "", "You: ") if by_you else NOTHING, text) for text in messages])


def retries_html(one: WorkflowRound) -> Html:
    """Return a line for each failed attempt to call the model."""
    return join_html(*[odd(f"▲ {retry_line(retry)}") for retry in one.retries])


def compactions_html(one: WorkflowRound, form: Form) -> Html:
    """Return a line for each compaction before this round; it expands to the summary."""
    return join_html(
        *[_compaction(one.index, position, compaction, form) for position, compaction in enumerate(one.compactions)]
    )


def _compaction(index: int, position: int, compaction: Compaction, form: Form) -> Html:
    line = compaction_line(compaction, form.settings)
    if compaction.compacted is None:
        return tag("div", "quiet", f"{line} …")
    if compaction.problem or not compaction.compacted.text:
        return odd(f"▲ {line}")
    body = tag("div", "summed", markdown_html(compaction.compacted.text.strip(), MAX_OF_A_SUMMARY))
    return fold(f"summary:{index}:{position}", line, body, form)
