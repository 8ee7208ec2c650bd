"""A round of a run as HTML, in pieces: a live card changes one without touching the others, a saved one joins them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from agentnb.core.compaction import Compaction
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.messages import Thinking
from agentnb.core.questions import AskedQuestion, by_call
from agentnb.core.request import ToolSpec
from agentnb.core.rounds import CallRecord, WorkflowRound
from agentnb.display.labels import counted
from agentnb.display.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.display.question import question_html
from agentnb.display.round_notes import RECOVERED, compaction_line, guidance_line, retry_line, round_warnings
from agentnb.display.tool_card import tool_card_html

MAX_OF_A_TEXT = 100_000
MAX_OF_THINKING = 40_000
MAX_OF_AN_AUTHOR = 100
MAX_ALSO = 4
"""Lines of what else happened that are shown without being opened."""


def no_nested_runs(call_id: str, folds: Mapping[str, bool]) -> Html:
    """Return nothing: the calls of most runs begin no runs, or none that are known."""
    return NOTHING


class Form(NamedTuple):
    """How a card is drawn."""

    live: bool = False
    """With buttons, and folded content that is fetched when opened."""
    whole: bool = False
    """With long results in full, as in a page of its own."""
    pictures: bool = True
    variable: str = "run"
    """The variable that holds the run, to say where all of a long result is."""
    folds: Mapping[str, bool] = MappingProxyType({})
    """What the person has opened or closed, by the keys of the folds."""
    effects: Mapping[str, Collection[str]] = MappingProxyType({})
    """The effects of the tools, by tool name."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """The settings of the run, for its limits."""
    over: bool = False
    """The run has ended, and no longer awaits answers."""
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs
    """Returns the runs that a call began, by the id of the call, and folded so."""

    def is_open(self, key: str, otherwise: bool = False) -> bool:
        """Return whether this fold is to be open."""
        return self.folds.get(key, otherwise)


def effects_of(tools: Iterable[ToolSpec]) -> dict[str, tuple[str, ...]]:
    """Return the effects of these tools, by tool name."""
    return {tool.name: tool.effects for tool in tools}


Pieces = dict[str, Html]
"""The pieces of a round by their keys, in order. Keys stay the same as long as the round lives."""


def round_pieces(
    one: WorkflowRound,
    form: Form,
    *,
    saw: Html = NOTHING,
    user_messages: Iterable[str] = (),
    also: Sequence[str] = (),
    questions: Iterable[AskedQuestion] = (),
    with_text: bool = True,
) -> Pieces:
    """Return all pieces of a round.

    ``saw``: what the model saw; ``user_messages``: what the person said during it; ``also``: lines of what else happened;
    ``questions``: what they were asked in it.
    """
    pieces: Pieces = {"saw": saw_html(one, saw, form)}
    if one.recovered:
        pieces["recovered"] = tag("div", "aside", f"↻ {RECOVERED}")
    if one.compactions:
        pieces["compactions"] = compactions_html(one, form)
    if one.retries:
        pieces["retries"] = retries_html(one)
    if thought := thinking_html(one, form):
        pieces["thinking"] = thought
    if with_text and one.text.strip():
        pieces["text"] = text_html(one)
    asked = by_call(questions)
    for place, record in enumerate(one.records):
        pieces[f"call:{place}"] = call_html(one, place, record, form, asked.pop(record.call.id, ()))
    for each in chain.from_iterable(asked.values()):
        pieces[f"question:{each.question.id}"] = _question(each, form)
    if one.status != "running" and (found := round_warnings(one)):
        pieces["found"] = joined(*[tag("div", "aside warn", f"▲ {sentence}") for sentence in found])
    if also:
        pieces["also"] = also_html(also, f"also:{one.index}", form)
    if told := list(user_messages):
        pieces["said"] = joined(*[tag("div", "said", tag("b", "", "You: "), text) for text in told])
    return {key: piece for key, piece in pieces.items() if piece}


def round_html(index: int, pieces: Pieces) -> Html:
    """Return a round with its number. Where styles are dropped, the number is on a line of its own."""
    number = tag("div", "number", tag("span", "unseen", "Round "), str(index + 1))
    return tag("div", "round", number, tag("div", "pieces", *pieces.values()), data_round=str(index))


def saw_html(one: WorkflowRound, saw: Html, form: Form) -> Html:
    """Return the line of guidance, which opens to what the model saw."""
    line = _guidance(one) or tag("span", "", "what the model saw")
    if form.live:
        fill = tag("div", "", data_fill=f"saw:{one.index}")
        return _fold(f"saw:{one.index}", line, fill, form, data_ask="saw", data_round=str(one.index))
    return _fold(f"saw:{one.index}", line, saw, form) if saw else tag("div", "aside", line) if one.guidance else NOTHING


def _fold(key: str, summary: Html, body: Html, form: Form, **attributes: str) -> Html:
    head = tag("summary", "aside", summary, title="What the model saw in this round")
    return tag("details", "saw", head, body, data_fold=key, open=form.is_open(key), **attributes)


def _guidance(one: WorkflowRound) -> Html:
    verdicts = (*one.followed, *[None] * (len(one.guidance) - len(one.followed)))
    return Html(" · ".join(_verdict(given, verdict) for given, verdict in zip(one.guidance, verdicts, strict=True)))


def _verdict(given: Guidance, verdict: Followed | None) -> Html:
    line = guidance_line(given, verdict)
    if verdict is None or verdict.followed is None:
        return tag("span", "", line)
    what, _, result = line.partition(": ")
    mark, kind = ("✓", "good") if verdict.followed else ("✗", "warn")
    return joined(tag("span", "", f"{what}: "), tag("span", kind, f"{mark} {result}"))


def also_html(lines: Sequence[str], key: str, form: Form) -> Html:
    """Return what else happened: a few lines as they are, more of them folded."""
    told = joined(*[tag("div", "aside", f"· {line}") for line in lines])
    if len(lines) <= MAX_ALSO:
        return told
    summary = tag("summary", "aside", f"· also happened: {counted(len(lines), 'event')}")
    return tag("details", "thinking", summary, told, data_fold=key, open=form.is_open(key, form.whole))


def author_html(author: str) -> Html:
    """Return who wrote a message, where several share a conversation."""
    return tag("div", "aside", tag("b", "", words(author, MAX_OF_AN_AUTHOR))) if author else NOTHING


def retries_html(one: WorkflowRound) -> Html:
    """Return a line for each failed attempt to call the model."""
    return joined(*[tag("div", "aside warn", f"▲ {retry_line(retry)}") for retry in one.retries])


def compactions_html(one: WorkflowRound, form: Form) -> Html:
    """Return a line for each compaction before this round, which opens to the summary."""
    return joined(*[_compaction(one.index, place, each, form) for place, each in enumerate(one.compactions)])


def _compaction(index: int, place: int, one: Compaction, form: Form) -> Html:
    line = compaction_line(one, form.settings)
    if one.compacted is None:
        return tag("div", "aside", f"{line} …")
    if one.problem or not one.compacted.text:
        return tag("div", "aside warn", f"▲ {line}")
    key = f"summary:{index}:{place}"
    body = tag("div", "summed", markdown_html(one.compacted.text.strip(), MAX_OF_A_TEXT))
    return tag("details", "thinking", tag("summary", "aside", line), body, data_fold=key, open=form.is_open(key))


def thinking_html(one: WorkflowRound, form: Form) -> Html:
    """Return the model's thinking, folded."""
    parts = one.reply.parts if one.reply is not None else ()
    thought = "\n\n".join(part.text for part in parts if isinstance(part, Thinking) and part.text.strip())
    if not thought:
        return NOTHING
    summary = tag("summary", "aside", f"thinking, {counted(len(thought.split()), 'word')}")
    body = tag("div", "thought", words(thought.strip(), MAX_OF_THINKING))
    key = f"thinking:{one.index}"
    return tag("details", "thinking", summary, body, data_fold=key, open=form.is_open(key))


def text_html(one: WorkflowRound) -> Html:
    """Return the text of the reply."""
    author = author_html(one.reply.author) if one.reply is not None else NOTHING
    return joined(author, tag("div", "text", markdown_html(one.text.strip(), MAX_OF_A_TEXT)))


def call_html(one: WorkflowRound, place: int, record: CallRecord, form: Form, questions: Iterable[AskedQuestion] = ()) -> Html:
    """Return the card of a call, and below it the runs that it began and what it asked the person."""
    card = tool_card_html(
        record,
        key=f"call:{one.index}:{place}",
        is_open=form.folds.get(f"call:{one.index}:{place}"),
        live=form.live,
        pictures=form.pictures,
        whole=form.whole,
        effects=form.effects.get(record.call.name),
        where=f"{form.variable}.rounds[{one.index}].results[{place}].text",
    )
    asked = [_question(each, form, may_wait=record.waits) for each in questions]
    return joined(card, form.nested(record.call.id, form.folds), *asked)


def _question(asked: AskedQuestion, form: Form, *, may_wait: bool = False) -> Html:
    return question_html(asked, live=form.live, over=form.over, whole=form.whole, may_wait=may_wait)
