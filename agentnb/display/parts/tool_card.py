"""Tool cards, shown as soon as the call is made, with the tool's name as the title and the result inside."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from agentnb.core.display_data import Table
from agentnb.core.log.events import Progress
from agentnb.core.run.agent_state import PLAN_TOOL
from agentnb.core.run.rounds import CallRecord
from agentnb.core.todos import TODO_TOOL
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, join_html, tag, words
from agentnb.display.parts.begun_runs import begun_html
from agentnb.display.parts.data_table import table_size
from agentnb.display.parts.tool_results import (
    arguments_html,
    as_text,
    is_pictured,
    is_tabular,
    printed_html,
    result_html,
)
from agentnb.display.texts import call_labels, labels

MAX_TITLE_CHARACTERS = 80
MAX_IN_LINE = 200
"""Maximum characters of arguments in the head of a card; the card's width may cut them further."""
MAX_INNER = 20
"""Maximum calls shown of those made by a tool."""
MAX_VISIBLE_CHARACTERS = 60
"""Maximum characters of arguments that can be read in the head of a narrow card."""
ICONS = {"planning": "☰", "execute": "$", "network": "⇄", "write": "✎", "read": "◇", "work": "◆"}
"""Signs of the categories. If a tool has several effects, the first in this order counts."""
TONES = {
    "running": "active",
    "waiting": "warn",
    "ok": "good",
    "failed": "bad",
    "stopped": "warn",
    "interrupted": "warn",
    "blocked": "warn",
}


ODD = ("blocked", "stopped", "interrupted")
"""Call states, apart from failed, that are conspicuous."""
MIN_SECONDS = 0.1
"""Shortest call duration, in seconds, that is shown."""
MAX_OF_A_RESULT = 160
"""Maximum characters of a result in the head of a card; the card's width may cut it further."""


class ToolCard(NamedTuple):
    """The content of a tool card, as data."""

    name: str
    """The name of the tool: the permanent title of its card."""
    status: str
    """Status: running, waiting, ok, failed, blocked, stopped or interrupted."""
    call_id: str
    details: tuple[str, ...] = ()
    """The arguments, one line each."""
    display: Table | None = None
    seconds: float | None = 0.0
    category: str = "work"
    """``planning``, or the effect of the tool, if known."""
    icon: str = ICONS["work"]
    parent: str | None = None
    """The tool that made the call, if any."""
    metadata: dict[str, Any] = {}  # noqa: RUF012  # never changed
    """The error code, and the call's metadata from the provider."""


def tool_card(record: CallRecord, effects: Collection[str] | None = None, parent: str | None = None) -> ToolCard:
    """Return the card of a call. ``effects``: the effects of its tool, if known."""
    category = _category(record, effects)
    metadata = dict(record.call.provider_metadata or {})
    if record.result is not None and record.result.error_code:
        metadata["error_code"] = record.result.error_code
    return ToolCard(
        name=record.call.name,
        status=call_labels.state(record),
        call_id=record.call.id,
        details=_details(record),
        display=record.display,
        seconds=record.seconds,
        category=category,
        icon=ICONS[category],
        parent=parent,
        metadata=metadata,
    )


def tool_card_html(record: CallRecord, form: Form, *, key: str = "", where: str = "", is_open: bool | None = None) -> Html:
    """Return the card of a call, folded unless its result opens by itself (or as ``is_open`` says).

    ``key``: key of its fold, and prefix of the keys within it; ``where``: a Python expression for its text.
    """
    card = tool_card(record, form.effects.get(record.call.name))
    opens_by_itself = (form.live and is_tabular(record)) or (form.pictures and is_pictured(record))
    body = tool_body_html(record, form, key=key, where=where)
    return tag(
        "details",
        f"tool {_loudness(card)}".rstrip(),
        _head(card, record),
        tag("div", "tool-body", body, data_fill=f"all:{card.call_id}" if form.live and record.result is not None else None),
        data_fold=key or None,
        open=opens_by_itself if is_open is None else is_open,
        data_call=card.call_id,
        data_status=card.status,
    )


def tool_body_html(record: CallRecord, form: Form, *, key: str = "", where: str = "") -> Html:
    """Return the body of a card: arguments that do not fit in the head, printed output, and the result.

    In the form ``whole``, it is the response to a live card's request for everything, and replaces the body.
    """
    result = result_html(record, form, where=where, key=key)
    inner = _inner_cards(record, form, key)
    if _fits(record) and not record.printed:
        return join_html(inner, result)
    arguments = NOTHING if _fits(record) else arguments_html(record, form, where)
    printed = printed_html(record, form, where, apart=bool(arguments or inner))
    label = tag("div", "tool-label tool-apart", "result") if result else NOTHING
    return join_html(arguments, inner, printed, label, result)


def _inner_cards(record: CallRecord, form: Form, key: str) -> Html:
    """Return the cards of the most recent calls that the tool made, each with the runs it started."""
    if not record.inner:
        return NOTHING
    omitted = 0 if form.whole else max(len(record.inner) - MAX_INNER, 0)
    form = form._replace(effects={})  # known only for the model's own tools
    cards = [
        join_html(tool_card_html(inner, form, key=f"{key}:{position}" if key else "", is_open=False), nested_html(inner, form))
        for position, inner in enumerate(record.inner[omitted:], omitted)
    ]
    more = tag("div", "quiet", f"{omitted:,} earlier calls") if omitted else NOTHING
    return tag("div", "tool-inner", more, *cards)


def nested_html(record: CallRecord, form: Form) -> Html:
    """Return the runs that a call started: those of the card or, without these, as the log lists them."""
    return form.nested(record.call.id, form.folds) or begun_html(record.nested)


def _loudness(card: ToolCard) -> str:
    """Return the class that makes a call conspicuous or, if it is a successful planning call, unobtrusive."""
    if card.status == "failed":
        return "bad-call"
    return "odd" if card.status in ODD else "routine" if card.category == "planning" and card.status == "ok" else ""


def _head(card: ToolCard, record: CallRecord) -> Html:
    failed, name = card.status == "failed", words(card.name, MAX_TITLE_CHARACTERS)
    quiet = _loudness(card) == "routine"
    icon = tag("span", "tool-icon", card.icon, title=card.category, aria_hidden="true")
    shown = [
        NOTHING if card.category in ("work", "planning") else icon,
        tag("span", "quiet", name) if quiet else tag("b", "tool-name bad" if failed else "tool-name", name),
        tag("code", "tool-line", call_labels.arguments(record, MAX_IN_LINE)),
        tag("span", f"tool-state {TONES[card.status]}", words(call_labels.outcome(record), MAX_IN_LINE))
        if card.status != "ok"
        else NOTHING,
        tag("span", "tool-error bad" if failed else "tool-result", _result_line(record)) if record.result else NOTHING,
        tag("span", "tool-time", labels.duration(card.seconds)) if card.seconds and card.seconds >= MIN_SECONDS else NOTHING,
    ]
    head = tag("span", "tool-head", Html(" ".join(piece for piece in shown if piece)))
    progress = _progress(record.progress) if record.success is not True else NOTHING
    return tag("summary", "tool-summary", head, progress, _printing(record) if record.result is None else NOTHING)


def _printing(record: CallRecord) -> Html:
    """Return the last line that a running tool printed."""
    last = record.printed.rstrip()[-4 * MAX_IN_LINE :].rpartition("\n")[2]
    return tag("div", "tool-printing", words(last, MAX_IN_LINE)) if last.strip() else NOTHING


def _result_line(record: CallRecord) -> str:
    """Return a shortened result: the size of a table, or the first words of a text."""
    if call_labels.state(record) not in ("ok", "failed") or record.result is None or not record.is_work:
        return NOTHING
    if record.display is not None:
        return table_size(record.display)
    if is_pictured(record) or (record.call.name == PLAN_TOOL and record.success):  # lines below describe the plan
        return NOTHING
    text = record.result.text[: 4 * MAX_OF_A_RESULT].strip()
    text = text.partition("\n")[0] if record.result.is_error else text
    return labels.first_line(text, MAX_OF_A_RESULT)


def _progress(progress: Progress | None) -> Html:
    """Return a progress bar showing the call's latest progress."""
    if progress is None:
        return NOTHING
    text = call_labels.progress(progress)
    has_total = progress.total is not None and progress.total > 0
    value = {"value": f"{max(progress.done, 0):g}", "max": f"{progress.total:g}"} if has_total else {}
    return tag("span", "tool-progress", tag("progress", "bar", aria_label="Progress", **value), " ", words(text, MAX_IN_LINE))


def _category(record: CallRecord, effects: Collection[str] | None) -> str:
    if not record.is_work:
        return "planning"
    return next((category for category in ICONS if category in (effects or ())), "work")


def _details(record: CallRecord) -> tuple[str, ...]:
    """Return each argument on a line of its own."""
    lines = [f"{name}: {as_text(value)}" for name, value in call_labels.arguments_by_name(record.call.arguments).items()]
    return tuple([labels.first_line(line, MAX_IN_LINE) for line in lines])


def _fits(record: CallRecord) -> bool:
    """True if the head shows the arguments in full."""
    if record.call.name == TODO_TOOL:
        return False
    return len(call_labels.arguments(record, 2 * MAX_VISIBLE_CHARACTERS)) <= MAX_VISIBLE_CHARACTERS
