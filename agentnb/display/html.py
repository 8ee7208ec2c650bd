"""A run as HTML that survives saving: inline styles, ``<details>``, no script, no style sheet.

All text of models and tools is escaped, or sanitised Markdown; pictures from tools are embedded as data, and nothing is
fetched. The pieces are those of the live card.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentnb.context.request_history import sent_requests
from agentnb.core.messages import Image
from agentnb.core.questions import AskedQuestion
from agentnb.core.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.event_lines import AlsoHappened
from agentnb.display.head import MAX_OF_A_PROMPT, chip_html, meta_html, model_html, note_tone, prompt_html, totals_html
from agentnb.display.labels import as_left, asked, counted, cut, leaves_todos, shown_answer, times, told
from agentnb.display.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.display.request_view import request_view_html
from agentnb.display.round_notes import round_notes
from agentnb.display.rounds import MAX_OF_A_TEXT, Form, also_html, effects_of, no_nested_runs, round_html, round_pieces
from agentnb.display.style import inlined, kept
from agentnb.display.text import ROUNDS_WHILE_RUNNING
from agentnb.display.todos import todos_html
from agentnb.display.totals import Totals
from agentnb.display.user_messages import UserMessages

_COMMAND = re.compile(r"(%%?agent [\w=.-][\w =.-]{0,70})(?=$|[,;.](?: |$))")
MAX_OF_PICTURES = 4_000_000
"""Bytes of all pictures of a run, which are saved in the notebook; beyond that, only the last pictures are shown."""
MAX_ROUNDS = 400
"""Rounds of a run that a saved notebook holds; of a longer run, the last rounds and the first `FIRST`."""
FIRST = 20
MAX_SEEN = 60
"""Rounds of a run that show in a saved notebook what the model saw; of a longer run, the last rounds."""
_PLAIN = Form()


def run_html(
    run: Run,
    *,
    last_text: bool = True,
    prompt: bool = False,
    folds: Mapping[str, bool] | None = None,
    variable: str = "run",
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs,
) -> Html:
    """Return the whole of an ended run, folded: its answer first, what it did beneath.

    ``last_text=False`` leaves out the answer, which is then shown elsewhere; ``folds`` are those that the person opened (or
    closed) in the live card, and that stay so; ``variable`` holds the run; ``nested`` returns the runs that a call began.
    """
    return kept(plain_html(run, Form(folds=folds or {}, variable=variable, nested=nested), last_text=last_text, prompt=prompt))


def plain_html(run: Run, form: Form, *, last_text: bool = True, prompt: bool = False) -> Html:
    """Return the HTML of `run_html` without inline styles, for a page with a style sheet."""
    totals = Totals(as_left(run))
    form = form._replace(effects=effects_of(run.tools), settings=run.settings, over=not run.should_continue)
    answer = shown_answer(run)
    return tag(
        "div",
        "run",
        head_html(run, totals),
        prompt_html(asked(run), MAX_OF_A_TEXT if form.whole else MAX_OF_A_PROMPT) if prompt else NOTHING,
        answer_html(answer) if answer and last_text else NOTHING,
        tag("div", "list", todos_html(run.todos, live=False)) if run.todos else NOTHING,
        _what_it_did(run, totals, form),
        notes_html(run, without_rounds(run), form),
    )


def running_html(
    run: Run,
    *,
    streaming: str = "",
    drawn: dict[int, Html] | None = None,
    hint: str = "",
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs,
) -> Html:
    """Return a run in progress, where no live card is possible: its last rounds, and the streaming text.

    ``drawn`` caches finished rounds from one call to the next.
    """
    drawn = {} if drawn is None else drawn
    shown = run.rounds[-ROUNDS_WHILE_RUNNING:]
    left_out = len(run.rounds) - len(shown)
    # Without pictures: it is drawn many times a second.
    form = Form(pictures=False, effects=effects_of(run.tools), settings=run.settings, nested=nested)
    rounds = [_drawn(one, drawn, form, run.questions_of(one.index)) for one in shown]
    earlier = tag("div", "aside", counted(left_out, "earlier round")) if left_out else NOTHING
    text = tag("div", "streaming", words(streaming, MAX_OF_A_TEXT)) if streaming else NOTHING
    todos = tag("div", "list", todos_html(run.todos, live=False)) if run.todos else NOTHING
    hinted = tag("div", "aside", hint) if hint else NOTHING
    return kept(tag("div", "run", head_html(run, Totals(run.rounds)), hinted, todos, earlier, *rounds, text, notes_html(run)))


def _drawn(one: WorkflowRound, drawn: dict[int, Html], form: Form, questions: Sequence[AskedQuestion]) -> Html:
    if one.status == "running" or any(each.outcome == "open" for each in questions):
        return inlined(round_html(one.index, round_pieces(one, form, questions=questions)))
    if one.index not in drawn:
        drawn[one.index] = inlined(round_html(one.index, round_pieces(one, form, questions=questions)))
    return drawn[one.index]


def answer_html(text: str) -> Html:
    """Return an answer: the model's text as Markdown."""
    return tag("div", "answer", markdown_html(text.strip(), MAX_OF_A_TEXT))


def head_html(run: Run, totals: Totals) -> Html:
    """Return state, usage and model, on one line where there is room."""
    return tag("div", "head", chip_html(run), " ", meta_html(run, totals), " ", model_html(run))


def without_rounds(run: Run) -> Sequence[str]:
    """Return the lines of all that happened in a run that made no rounds."""
    return () if run.rounds else AlsoHappened(run.events).during(0)


def notes_html(run: Run, also: Sequence[str] = (), form: Form = _PLAIN) -> Html:
    """Return the notes to the person, and how the run ended unless it simply completed; before them what ``also`` happened."""
    happened = tag("div", "rounds", also_html(also, "also", form)) if also else NOTHING
    return joined(happened, *[tag("div", f"note {note_tone(run)}", with_commands(note)) for note in told(run)])


def with_commands(note: str) -> Html:
    """Mark up the commands in a note as code, each on one line."""
    pieces = _COMMAND.split(cut(note, 2_000))
    return joined(*[tag("code", "command", piece) if place % 2 else words(piece) for place, piece in enumerate(pieces)])


def _what_it_did(run: Run, totals: Totals, form: Form) -> Html:
    rounds = _rounds(run, form)
    if not rounds:
        return NOTHING
    recovered = f"recovered {times(run.times_recovered)}" if run.times_recovered else ""
    calls, guidance = totals.calls_told, totals.guidance_told
    counts = [counted(totals.rounds, "round"), calls, guidance, totals.summed_told, recovered, totals.found_told]
    summary = tag("summary", "summary", "What it did: " + " · ".join(one for one in counts if one))
    answered = run.status == "completed" or bool(shown_answer(run))
    went_well = answered and not totals.failed and not leaves_todos(run)
    body = tag("div", "rounds", *rounds, tag("div", "list", totals_html(run, totals)))
    return tag("details", "", summary, body, open=form.is_open("rounds", not went_well or any(form.folds.values())))


def _rounds(run: Run, form: Form) -> list[Html]:
    hidden = run.rounds[-1].index if shown_answer(run) else -1  # the last round is the answer, which is shown as such
    all_rounds = as_left(run)
    pictured = pictured_rounds(all_rounds, None if form.whole else MAX_OF_PICTURES)
    user_messages, saw = UserMessages(run.events), _seen(run, form)
    also = AlsoHappened(run.events)
    rounds = []
    for place, one in enumerate(all_rounds):
        if not form.whole and FIRST <= place < len(all_rounds) - MAX_ROUNDS:
            if place == FIRST:
                rounds.append(_left_out(run))
            continue
        questions, more = run.questions_of(one.index), also.during(one.index)
        about = _is_remarkable(one) or user_messages.during(one.index) or questions or more
        if one.index == hidden and not (about or len(all_rounds) > 1):
            continue
        pieces = round_pieces(
            one,
            form._replace(pictures=one.index in pictured),
            saw=saw.get(one.index, NOTHING),
            user_messages=user_messages.during(one.index),
            also=more,
            questions=questions,
            with_text=one.index != hidden,
        )
        rounds.append(round_html(one.index, pieces))
    return rounds


def _left_out(run: Run) -> Html:
    count = counted(len(run.rounds) - MAX_ROUNDS - FIRST, "round")
    return tag("div", "list aside", f'{count} left out here. All: save_trace(run, "run.html")')


def _is_remarkable(one: WorkflowRound) -> bool:
    return any(line.at_once for line in round_notes(one))


def _seen(run: Run, form: Form) -> dict[int, Html]:
    first = 0 if form.whole else max(0, len(run.rounds) - MAX_SEEN)
    shown = ((index, seen) for index, seen in sent_requests(run) if index >= first or not index)
    return {index: request_view_html(seen, whole=False, schemas=form.whole) for index, seen in shown}


def pictured_rounds(rounds: Iterable[WorkflowRound], room: int | None) -> frozenset[int]:
    """Return the rounds whose pictures are shown: from the last backwards, while there is ``room`` (bytes; None: for all)."""
    found: set[int] = set()
    for one in reversed(list(rounds)):
        size = sum(len(part.data) for result in one.results for part in result.parts if isinstance(part, Image))
        if room is not None:
            room -= size
            if room < 0:
                break
        if size:
            found.add(one.index)
    return frozenset(found)
