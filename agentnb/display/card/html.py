"""A run as HTML that survives saving: inline styles and ``<details>``, but no script or style sheet.

All text from models and tools is either escaped or sanitised Markdown. Pictures from tools are embedded as data, and nothing is
fetched. The live card uses the same pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentnb.advice import pieces
from agentnb.core.questions import AskedQuestion
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.card.finished import figures_html, foot_html, pictured_calls, pieces_html, result_html
from agentnb.display.card.text import ROUNDS_WHILE_RUNNING
from agentnb.display.card.transcript import transcript
from agentnb.display.card.workflow_card import steps_html, workflow_html
from agentnb.display.css import inline_css, wrap_output
from agentnb.display.defaults import MAX_OF_A_TEXT
from agentnb.display.form import Form, effects_of, no_nested_runs
from agentnb.display.markup import NOTHING, Html, join_html, tag, words
from agentnb.display.parts.expectations import expectations_html
from agentnb.display.parts.finding_links import findings_html, lines_of
from agentnb.display.parts.head import folded_prompt_html, meta_html, prompt_html, state_html
from agentnb.display.parts.round_details import also_html, said_html
from agentnb.display.parts.round_pieces import round_html, round_pieces
from agentnb.display.parts.run_totals import Totals
from agentnb.display.parts.step_list import has_steps
from agentnb.display.parts.todo_list import todos_html
from agentnb.display.texts.event_lines import AlsoHappened, without_steps
from agentnb.display.texts.labels import pluralize
from agentnb.display.texts.notebook_commands import NOTEBOOK
from agentnb.display.texts.run_figures import prompt_with_author
from agentnb.display.texts.states import closing_pieces, is_foreign, live_answer, rounds_at_end
from agentnb.display.texts.user_messages import USER, UserMessages


def run_html(
    run: Run,
    *,
    prompt: bool = False,
    folds: Mapping[str, bool] | None = None,
    details: bool = False,
    variable: str = "run",
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs,
) -> Html:
    """Return a finished run: first its answer, then problems, and a folded transcript.

    ``folds``: the folds that the person opened or closed in the live card, to be kept that way; ``details``: whether rounds
    show details; ``variable``: the variable that holds the run; ``nested``: returns a call's nested runs.
    """
    form = Form(folds=folds or {}, details=details, variable=variable, nested=nested)
    return wrap_output(plain_html(run, form, prompt=prompt))


def plain_html(run: Run, form: Form, *, prompt: bool = False) -> Html:
    """Return the HTML of `run_html` without inline styles, for a page with a style sheet."""
    totals, pictured, findings = Totals(rounds_at_end(run)), pictured_calls(run), lines_of(run)
    shown_above = frozenset([record.call.id for record in pictured])
    form = form._replace(
        marks=findings.marks,
        foreign=is_foreign(run),
        effects=effects_of(run.tools),
        settings=run.settings,
        over=not run.should_continue,
        shown_above=shown_above,
        run=run,
    )
    text = prompt_with_author(run)
    asked = prompt_html(text, MAX_OF_A_TEXT) if form.whole else folded_prompt_html(text)
    return tag(
        "div",
        "run",
        head_html(run, totals),
        asked if prompt else NOTHING,
        workflow_html(run),
        result_html(run),
        expectations_html(run),
        figures_html(pictured),
        _also(without_rounds(run), form),
        NOTHING if run.rounds else _user_messages(run, form),
        findings_html(run, findings, form),
        foot_html(run, totals, form, transcript(run, form)),
    )


def _user_messages(run: Run, form: Form) -> Html:
    """Return the person's messages in a run that has no rounds."""
    user_messages = UserMessages(run.events, USER if form.foreign else "").during(0)
    return tag("div", "list", said_html(user_messages, by_you=not form.foreign)) if user_messages else NOTHING


def running_html(
    run: Run,
    *,
    streaming: str = "",
    drawn: dict[int, Html] | None = None,
    hint: str = "",
    nested: Callable[[str, Mapping[str, bool]], Html] = no_nested_runs,
) -> Html:
    """Return a run in progress for places without a live card: its most recent rounds, and the streaming text.

    ``drawn`` caches finished rounds between calls.
    """
    drawn = {} if drawn is None else drawn
    shown = run.rounds[-ROUNDS_WHILE_RUNNING:]
    omitted = len(run.rounds) - len(shown)
    # No pictures: redrawn many times a second.
    form = Form(pictures=False, effects=effects_of(run.tools), settings=run.settings, nested=nested, run=run)
    rounds = [_draw_round(run_round, drawn, form, run.questions_of(run_round.index)) for run_round in shown]
    earlier = tag("div", "list quiet", pluralize(omitted, "earlier round")) if omitted else NOTHING
    text = tag("div", "streaming", words(streaming, MAX_OF_A_TEXT)) if streaming else NOTHING
    todos = tag("div", "list", todos_html(run.todos, live=False)) if run.todos else NOTHING
    hint_html = tag("div", "list quiet", hint) if hint else NOTHING
    user_messages = NOTHING if run.rounds else _user_messages(run, form)
    work = [user_messages, workflow_html(run), steps_html(run, form), todos, earlier, *rounds, text]
    step = live_answer(run)
    answer = NOTHING if step is None else tag("div", "why", pieces_html(pieces("", [step], NOTEBOOK)))
    return wrap_output(tag("div", "run", head_html(run, Totals(run.rounds)), hint_html, *work, notes_html(run), answer))


def _draw_round(run_round: WorkflowRound, drawn: dict[int, Html], form: Form, questions: Sequence[AskedQuestion]) -> Html:
    may_change = run_round.status == "running" or any(question.outcome == "open" for question in questions)
    if run_round.index in drawn and not may_change:
        return drawn[run_round.index]
    html = inline_css(round_html(run_round.index, round_pieces(run_round, form, questions=questions)))
    if not may_change:
        drawn[run_round.index] = html
    return html


def head_html(run: Run, totals: Totals) -> Html:
    """Return the state and usage, on one line where possible."""
    return tag("div", "head", state_html(run, leads=True), " ", meta_html(run, totals))


def without_rounds(run: Run) -> Sequence[str]:
    """Return lines about the events (other than steps) of a run without rounds."""
    if run.rounds:
        return ()
    return AlsoHappened(without_steps(run.events) if has_steps(run) else run.events).during(0)


def notes_html(run: Run, also: Sequence[str] = ()) -> Html:
    """Return the notes to the person, why the run ended and the next command, preceded by the lines ``also``."""
    return join_html(_also(also, Form()), *[tag("div", "why", pieces_html(note)) for note in closing_pieces(run)])


def _also(lines: Sequence[str], form: Form) -> Html:
    return tag("div", "list", also_html(lines, "also", form)) if lines else NOTHING
