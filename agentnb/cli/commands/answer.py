"""``agentnb answer``: answers the open question of a run, and resumes the run."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from agentnb.advice import AnswerRun, in_words
from agentnb.cli.command import RUN, Command, Outcome, argument, text_of
from agentnb.cli.resumed_runs import resume
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.terminal_questions import ask_question, is_at_terminal
from agentnb.cli.workflow_options import RESUME_OPTIONS
from agentnb.core.questions import NoAnswer, WaitingOnUser, answer_in_words
from agentnb.core.run.approvals import answerable_later
from agentnb.detect.run import Run
from agentnb.display.texts.judged_call import question_text
from agentnb.display.texts.labels import first_line
from agentnb.display.texts.question_labels import TYPED_NO_ANSWER, typed_answers
from agentnb.errors import SettingsError, suggest_names
from agentnb.session.recovery import place_of

MAX_OF_A_QUESTION = 120
"""Maximum number of characters shown per question in a list of several."""


def answer(args: Namespace) -> Outcome:
    """Answer the open question of a run, and run it to its end, or to its next question."""
    store, name = place_of(args.run)
    run = store.load(store.find(name))
    question = _question(run, args.question)
    return resume(run, store, args, {question.id: _answer(run, question, args)})


def _answer(run: Run, question: WaitingOnUser, args: Namespace) -> Any:
    """Return the answer from the command line, or the one typed at the terminal."""
    if args.no_answer is not None:
        if args.value is not None:
            word = next(word for word, no_answer in TYPED_NO_ANSWER.items() if no_answer is args.no_answer)
            raise SettingsError(f"{word} cannot be combined with an answer", "Give one of the two")
        return args.no_answer
    if args.value is not None:
        return answer_in_words(question.schema, args.value)
    if is_at_terminal() and not args.no_input:
        return ask_question(question)
    which = question.id if len(answerable_later(run)) > 1 else ""
    ready = [in_words([AnswerRun(run.id, which, text=text)], SHELL) for text in typed_answers(question) or [""]]
    asked = first_line(question_text(question), MAX_OF_A_QUESTION)
    raise SettingsError(f"The command does not answer the question: {asked}", f"Write: {', or '.join(ready)}")


def _question(run: Run, wanted: str | None) -> WaitingOnUser:
    waiting = answerable_later(run)
    if not waiting:
        hint = f"To resume it: agentnb recover {run.id}" if run.status == "interrupted" else f"agentnb show {run.id} shows it"
        raise SettingsError(f"Run {run.id} is not waiting for an answer", hint)
    if wanted is None and len(waiting) > 1:
        asked = "; ".join(f"{question.id}: {first_line(question_text(question), MAX_OF_A_QUESTION)}" for question in waiting)
        raise SettingsError(f"Run {run.id} has several open questions. {asked}", f"Say which: --question {waiting[0].id}")
    question = next((question for question in waiting if wanted in (None, question.id)), None)
    if question is None:
        raise SettingsError(
            f"Run {run.id} has no question {wanted}", suggest_names(str(wanted), [question.id for question in waiting])
        )
    return question


ANSWER = Command(
    answer,
    (
        RUN,
        argument(
            "value",
            metavar="ANSWER",
            nargs="?",
            help="yes or no, one of the choices, text, or JSON, as the question requires; by default you are asked here",
        ),
        argument(
            "--decline",
            dest="no_answer",
            action="store_const",
            const=NoAnswer.DECLINE,
            help="say no to the question instead of answering it",
        ),
        argument(
            "--cancel",
            dest="no_answer",
            action="store_const",
            const=NoAnswer.CANCEL,
            help="close the question without deciding",
        ),
        argument("--question", metavar="ID", type=text_of, help="which question, if there are several"),
        *RESUME_OPTIONS,
    ),
    "agentnb answer 1507efae80 yes\nagentnb answer 1507efae80 'Publish it tomorrow' --tools my_tools:fetch",
)
