"""``agentnb answer``: answers the question that a run waits for, and runs it to its end."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from agentnb.cli.command import Command, Outcome, argument, text_of
from agentnb.cli.inputs import find_tools
from agentnb.cli.progress import Progress
from agentnb.cli.workflow_options import MODEL, TOOLS, options_again
from agentnb.cli.workflow_runs import awaited, chosen_model, outcome_of, top_steps
from agentnb.core.approvals import answerable_later
from agentnb.core.questions import WaitingOnUser, answer_in_words
from agentnb.detect.run import Run
from agentnb.display.labels import clean, first_line
from agentnb.errors import SettingsError, near
from agentnb.session.recovery import begin_recovery, place_of
from agentnb.workflow.workflow import Workflow

MAX_OF_A_QUESTION = 120
"""Characters of a question in a list of several."""


def answer(given: Namespace) -> Outcome:
    """Answer the question that a run waits for, and run it to its end, or to its next question."""
    store, name = place_of(given.run)
    run = store.load(store.find(name))
    question = _question(run, given.question)
    answers = {question.id: answer_in_words(question.schema, given.value)}
    tools, model = find_tools(given.tools), given.model
    steps: list[str] = []
    if "workflow" in run.settings:
        workflow = Workflow.of_run(run, tools=tools)
        model = chosen_model(workflow, model)
        steps = top_steps(workflow)
    start = partial(begin_recovery, run.id, tools=tools, model=model, store=store)
    ended = awaited(start, Progress(steps, after=len(run.events)), answers=answers)
    return outcome_of(ended, options_again(given.tools, given.model))


def _question(run: Run, wanted: str | None) -> WaitingOnUser:
    waiting = answerable_later(run)
    if not waiting:
        raise SettingsError(f"Run {run.id} waits for no answer", f"agentnb show {run.id} shows it")
    if wanted is None and len(waiting) > 1:
        asked = "; ".join(f"{one.id}: {first_line(clean(one.message), MAX_OF_A_QUESTION)}" for one in waiting)
        raise SettingsError(f"Run {run.id} has several open questions. {asked}", f"Say which: --question {waiting[0].id}")
    found = next((one for one in waiting if wanted in (None, one.id)), None)
    if found is None:
        raise SettingsError(f"Run {run.id} has no question {wanted}", near(str(wanted), [one.id for one in waiting]))
    return found


ANSWER = Command(
    answer,
    (
        argument("run", metavar="ID|FILE", type=text_of, help="the id of a run here (its end is enough), or its log"),
        argument("value", metavar="ANSWER", help="yes or no, one of the choices, a text, or JSON, as the question requires"),
        argument("--question", metavar="ID", type=text_of, help="which question, if there are several"),
        TOOLS,
        MODEL,
    ),
    "agentnb answer 1507efae80 yes\nagentnb answer 1507efae80 'Publish it tomorrow' --tools my_tools:fetch",
)
