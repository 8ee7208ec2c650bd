"""``agentnb answer``: answers the question that a run waits for, and runs it to its end."""

from __future__ import annotations

from argparse import Namespace

from agentnb.cli.command import Command, Outcome, argument, text_of
from agentnb.cli.resumed_runs import resume
from agentnb.cli.workflow_options import RESUME_OPTIONS
from agentnb.core.questions import WaitingOnUser, answer_in_words
from agentnb.core.run.approvals import answerable_later
from agentnb.detect.run import Run
from agentnb.display.texts.judged_call import question_text
from agentnb.display.texts.labels import clean, first_line
from agentnb.errors import SettingsError, near
from agentnb.session.recovery import place_of

MAX_OF_A_QUESTION = 120
"""Characters of a question in a list of several."""


def answer(given: Namespace) -> Outcome:
    """Answer the question that a run waits for, and run it to its end, or to its next question."""
    store, name = place_of(given.run)
    run = store.load(store.find(name))
    question = _question(run, given.question)
    answers = {question.id: answer_in_words(question.schema, given.value)}
    return resume(run, store, given, answers)


def _question(run: Run, wanted: str | None) -> WaitingOnUser:
    waiting = answerable_later(run)
    if not waiting:
        hint = f"To resume it: agentnb recover {run.id}" if run.status == "interrupted" else f"agentnb show {run.id} shows it"
        raise SettingsError(f"Run {run.id} waits for no answer", hint)
    if wanted is None and len(waiting) > 1:
        asked = "; ".join(f"{one.id}: {first_line(clean(question_text(one)), MAX_OF_A_QUESTION)}" for one in waiting)
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
        *RESUME_OPTIONS,
    ),
    "agentnb answer 1507efae80 yes\nagentnb answer 1507efae80 'Publish it tomorrow' --tools my_tools:fetch",
)
