"""The first line of a card, and its totals: state, time, tokens and money."""

from __future__ import annotations

from datetime import datetime, timedelta

from agentnb.acp.external_agent import is_external
from agentnb.core.log.outcome import Outcome
from agentnb.core.run.agent_state import PlanPosition
from agentnb.core.run.timeline import pending_retry
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.detect.run_states import RunState, completion, kind_of_counted_calls, state_of
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.parts.run_problems import to_first_call
from agentnb.display.parts.run_totals import Totals
from agentnb.display.texts.elapsed import Elapsed
from agentnb.display.texts.labels import FIGURE_SPACE, amount, duration, first_line, pluralize, thousands, times
from agentnb.display.texts.run_figures import call_words, output_words, usage_parts
from agentnb.display.texts.states import (
    chip,
    filled_gaps,
    has_ended,
    is_going_on,
    outcome_with_source,
    rounds_words,
    steps_words,
)

TONES = {
    "running": "active",
    "waiting_on_user": "asking",
    "limited": "warn",
    "stopped": "warn",
    "cancelled": "warn",
    "interrupted": "warn",
    "unknown": "neutral",
    "failed": "bad",
}
OUTCOME_TONES = {"passed": "good", "failed": "bad", "unknown": "neutral"}
MARKS = {"active": "●", "asking": "◆", "good": "✓", "neutral": "•", "warn": "■", "bad": "✗"}
"""Marks of the tones. Each state has its own mark and word; colour only reinforces them."""
MAX_OF_A_PROMPT = 2_000
MAX_AT_A_GLANCE = 280
"""Maximum characters of a prompt that is shown unfolded."""
MAX_LINES = 5
"""Maximum lines of a prompt that is shown unfolded."""
MAX_OF_A_PLACE = 300
"""Maximum characters of a file name, or of any other fact about where a run comes from."""
MAX_OF_SPEAKERS = 400
MIN_SECONDS = 0.1
"""Shortest run duration, in seconds, that is shown."""
MAX_WAIT = 1e8
"""Maximum seconds for a countdown: about three years."""


def tone(run: Run) -> str:
    """Return the tone of a run's state: active, asking, good, neutral, warn or bad."""
    if run.status == "running":
        return TONES["waiting_on_user" if run.agent_state == "waiting_on_user" else "running"]
    return tone_of(state_of(run))


def tone_of(state: RunState) -> str:
    """Return the tone of a state. A completed run is good only if it was checked and passed the check."""
    return completion(state)[0] if state.status == "completed" else TONES.get(state.status, "warn")


def marked_html(kind: str, text: str, *more: Html, look: str = "chip", element: str = "span") -> Html:
    """Return the words for a state or an outcome, preceded by the mark of its tone."""
    return tag(element, f"{look} {kind}", tag("span", "mark", MARKS[kind], aria_hidden="true"), f" {text}", *more)


def listed_state_html(kind: str, state: str, outcome: Outcome, outcome_told: str) -> Html:
    """Return a run's state as shown in lists, and its outcome if known."""
    parts = [(kind, state), (OUTCOME_TONES[outcome], outcome_told)]
    marks = [marked_html(tone, text, look="history-status", element="b") for tone, text in parts if text]
    return Html(" ".join(marks))


def prompt_html(prompt: str, most: int = MAX_OF_A_PROMPT, kind: str = "prompt") -> Html:
    """Return the prompt as written."""
    return tag("div", kind, tag("b", "", "Asked: "), words(prompt.strip(), most)) if prompt.strip() else NOTHING


def folded_prompt_html(prompt: str) -> Html:
    """Return the prompt for a card. A long one is folded to its first words, so that the answer stays in view."""
    text = prompt.strip()
    if len(text) <= MAX_AT_A_GLANCE and text.count("\n") < MAX_LINES:
        return prompt_html(text)
    first = first_line(text[:MAX_OF_A_PROMPT], MAX_AT_A_GLANCE)
    title, whole = join_html(tag("b", "", "Asked: "), first), tag("div", "prompt-text", words(text, MAX_OF_A_PROMPT))
    return fold_tag("prompt", "prompt-title", title, whole, data_fold="prompt")


def chip_html(run: Run, *, hears: bool = False, position: PlanPosition | None = None, leads: bool = False) -> Html:
    """Return the state as `chip` does, with its mark. In a live card, the wait for a retry counts down.

    ``leads``: whether a state that counts calls is a link to the first of them.
    """
    kind = tone(run)
    until = _wait_ends(run)
    counter = tag("span", "", "", data_until=str(_milliseconds(until))) if until else _silence(run)
    state = first_line(chip(run, hears=hears, position=position), 200)
    return marked_html(kind, "", to_first_call(run, state), counter) if leads else marked_html(kind, state, counter)


def _silence(run: Run) -> Html:
    """Return the element that counts, in a live card, how long an external agent (which reports no retries) has been silent."""
    current = run.open_round
    is_awaited = run.status == "running" and current is not None and current.reply is None and is_external(run)
    return tag("span", "", "", data_silent="") if is_awaited else NOTHING


def state_html(run: Run, *, leads: bool = False) -> Html:
    """Return the state of a run, the outcome if known, and any use of substitutes. ``leads``: see `chip_html`."""
    return Html(" ".join([mark for mark in (chip_html(run, leads=leads), outcome_html(run), _substitutes(run)) if mark]))


def _substitutes(run: Run) -> Html:
    is_counted = not run.substitutes or kind_of_counted_calls(state_of(run)) == "substituted"
    return NOTHING if is_counted else tag("span", "chip warn", f"{pluralize(run.substitutes, 'step')} used a substitute")


def outcome_html(run: Run) -> Html:
    """Return the outcome and its source, such as ``failed: reward 0 (tau-bench)``; empty if there is no outcome."""
    text = outcome_with_source(run)
    return marked_html(OUTCOME_TONES[run.outcome], text) if text else NOTHING


def _wait_ends(run: Run) -> datetime | None:
    """Return when a pending retry is due."""
    retry = pending_retry(run)
    return None if retry is None or retry.at is None else retry.at + timedelta(seconds=min(retry.seconds, MAX_WAIT))


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


def meta_html(run: Run, totals: Totals, elapsed: Elapsed | None = None) -> Html:
    """Return progress and usage, each with its limit. With ``elapsed``, the page itself keeps counting the time."""
    parts = [
        output_words(run),
        _rounds(run),
        steps_words(run),
        _calls_so_far(run, totals),
        _elapsed_html(run, elapsed),
        *usage_parts(run),
    ]
    shown = [part for part in parts if part]
    return tag("span", "meta", Html(" · ".join([tag("span", "part-of", part) for part in shown])))


def _rounds(run: Run) -> str:
    if run.should_continue and run.rounds:
        most = f" of {run.max_rounds}" if run.max_rounds else ""
        return f"round {len(run.rounds)}{most}"
    is_in_the_state = run.status == "limited" and run.stop_reason == "max_rounds"
    return "" if is_in_the_state else rounds_words(run)


def _calls_so_far(run: Run, totals: Totals) -> str:
    """Return the number of calls. In a live run, it is shown only next to its limit, at constant width."""
    if not run.should_continue:
        return call_words(run, totals.calls, totals.updates)
    most = amount(run.settings.get("max_tool_calls"))
    limit = f"{most:g}" if most is not None else ""
    return f"{str(run.calls_made).rjust(len(limit), FIGURE_SPACE)} of {limit} calls" if limit else ""


def _elapsed_html(run: Run, elapsed: Elapsed | None) -> str:
    if has_ended(run):
        return duration(run.seconds) if run.seconds is not None and run.seconds >= MIN_SECONDS else ""
    if elapsed is None or not is_going_on(run):
        return NOTHING
    most = amount(run.settings.get("max_seconds"))
    limit = f" of {_clock(most)}" if most else ""
    if elapsed.standing is not None:
        return _clock(elapsed.standing) + limit
    since = elapsed.since
    return join_html(tag("span", "", "", data_since=str(_milliseconds(since))), limit) if since is not None else NOTHING


def _clock(seconds: float) -> str:
    """Return ``01:30``, in the page's format; for less than a second, format as `duration` does."""
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}" if seconds >= 1 or not seconds else duration(seconds)


def model_html(run: Run) -> Html:
    """Return the model's name."""
    return tag("span", "model detail", first_line(run.model.partition("?")[0], 80), title=first_line(run.model, 300))


def details_html(run: Run, totals: Totals) -> Html:
    """Return rarely needed facts about a run: id, model, guidance, tokens and counts."""
    guidance = run.settings.get("guidance")
    used = ""
    if isinstance(guidance, dict) and guidance.get("set") not in (None, "off"):
        used = f"{first_line(str(guidance['set']), 60)}@{str(guidance.get('version', ''))[:4]}"
    if run.drawn is not None:
        used = f"drawn among {first_line(', '.join(run.drawn.among) or run.drawn.set, 120)}"
    rows = [
        ("run", first_line(run.id, 100)),
        ("started", f"{run.started_at:%Y-%m-%d %H:%M:%S} UTC" if run.started_at else ""),
        ("model", first_line(run.model, 100)),
        ("context", _context(run)),
        ("guidance", used),
        ("resumed", times(run.times_recovered) if run.times_recovered else ""),
        *_origin(run),
        ("gaps", filled_gaps(run)),
        ("speakers", first_line(", ".join(speakers(run)), MAX_OF_SPEAKERS)),
        *_counts(run, totals),
    ]
    return tag("div", "totals", _rows(rows))


def _context(run: Run) -> str:
    """Return the run's contexts in order, and the entity of the last one."""
    entity = f", {run.entity}" if run.entity else ""
    return first_line(f"{' → '.join(run.contexts)}{entity}", MAX_OF_A_PLACE) if run.contexts else ""


def _origin(run: Run) -> list[tuple[str, str]]:
    """Return the origin of a foreign run; empty for one of agentnb's own."""
    origin = run.origin
    if origin is None:
        return []
    facts = (
        ("format", origin.format),
        ("file", origin.file),
        ("position", origin.position),
        ("task", origin.task),
        ("trial", origin.trial),
    )
    return [(name, first_line(value, MAX_OF_A_PLACE)) for name, value in facts]


def speakers(run: Run) -> list[str]:
    """Return the names of the run's authors, ordered by first message; empty if messages have no authors."""
    return [*dict.fromkeys(message.author for message in run.messages if message.author)]


def totals_html(run: Run, totals: Totals) -> Html:
    """Return tokens, calls and guidance on one line each."""
    shown = _rows(_counts(run, totals))
    return join_html(tag("div", "title", "Run"), tag("div", "totals", shown)) if shown else NOTHING


def _counts(run: Run, totals: Totals) -> list[tuple[str, str]]:
    return [
        ("input", _input(run.usage)),
        ("output", thousands(run.usage.output) if run.usage.output else ""),
        _calls(run, totals),
        ("in this turn", _calls_this_turn(run)),
        ("guidance followed", f"{totals.followed} of {totals.judged}" if totals.judged else ""),
        ("failed attempts", str(totals.retried) if totals.retried else ""),
        ("summarized", times(totals.summed) if totals.summed else ""),
    ]


def _rows(rows: list[tuple[str, str]]) -> Html:
    """Return the rows that have a value. Their separators are visible only if there are no styles."""
    shown = [
        join_html(tag("span", "", name, tag("span", "unseen", ": ")), tag("span", "value", value))
        for name, value in rows
        if value
    ]
    return Html(tag("span", "unseen", " · ").join(shown))


def _calls(run: Run, totals: Totals) -> tuple[str, str]:
    """Return the number of calls and its label; next to a limit, the number that counts towards the limit."""
    most = amount(run.settings.get("max_tool_calls"))
    if most is not None and run.should_continue:
        return ("tool calls", f"{run.calls_made} of {most:g}")
    return ("calls", totals.calls_told(run))


def _calls_this_turn(run: Run) -> str:
    most = amount(run.settings.get("max_tool_calls_per_turn"))
    return f"{run.calls_this_turn} of {most:g}" if most is not None and run.should_continue else ""


def _input(usage: Usage) -> str:
    cached = f" ({thousands(usage.cache_read)} cached)" if usage.cache_read else ""
    return f"{thousands(usage.input)}{cached}" if usage.input else ""
