"""A run for a person to judge: prompt, calls, results and answer, without any of agentnb's own judgements."""

from __future__ import annotations

from msgspec.structs import replace

from agentnb.core.guidance import Guidance
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.css import wrap_output
from agentnb.display.form import Form, effects_of
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.parts.round_pieces import round_html, round_pieces
from agentnb.display.parts.todo_list import todo_list_html
from agentnb.display.texts.labels import clean, cut, pluralize
from agentnb.display.texts.run_figures import prompt_with_author
from agentnb.display.texts.states import rounds_at_end

MAX_OF_A_PROMPT = 20_000
FIRST, LAST = 50, 150
"""Number of rounds shown from the start and from the end of a longer run."""
MAX_OF_AN_ERROR = 2_000


def blind_html(run: Run, until: int | None = None, given: Guidance | None = None) -> Html:
    """Return a run to be judged: its prompt, rounds, todos and error, without judgements.

    ``until``: the number of rounds to show, for judging whether the last of them follows the guidance ``given``.
    """
    form = Form(effects=effects_of(run.tools), over=not run.should_continue)
    rounds = [_without_judgements(run_round) for run_round in rounds_at_end(run)][:until]
    shown, omitted = rounds, 0
    if len(rounds) > FIRST + LAST:
        shown, omitted = [*rounds[:FIRST], *rounds[-LAST:]], len(rounds) - FIRST - LAST
    drawn = [round_html(run_round.index, round_pieces(run_round, form)) for run_round in shown]
    if omitted:
        drawn.insert(FIRST, tag("div", "list quiet", f"{pluralize(omitted, 'round')} not shown"))
    prompt = tag("div", "prompt", tag("b", "", "Asked: "), words(prompt_with_author(run).strip(), MAX_OF_A_PROMPT))
    if given is not None:
        reminder = tag("div", "prompt", tag("b", "", "Reminder: "), words(given.text.strip(), MAX_OF_A_PROMPT))
        return wrap_output(
            tag("div", "run", prompt, tag("div", "rounds", *drawn[:-1]), reminder, tag("div", "rounds", drawn[-1]))
        )
    todos = tag("div", "list", todo_list_html(run.todos, live=False)) if run.todos else NOTHING
    error = tag("div", "why why-bad", cut(clean(str(run.error)), MAX_OF_AN_ERROR)) if run.error else NOTHING
    return wrap_output(tag("div", "run", prompt, tag("div", "rounds", *drawn), todos, error))


def _without_judgements(run_round: WorkflowRound) -> WorkflowRound:
    """Return the round without guidance, warnings and verdicts, which would reveal agentnb's judgement."""
    return replace(
        run_round,
        status="running" if run_round.status == "running" else "success",
        note="",
        guidance=(),
        followed=(),
        todo_violations=(),
        said_before=None,
    )
