"""``%agent answer``: answers the question of a live run, or resumes a suspended run with the answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, cast

from IPython.core.interactiveshell import InteractiveShell
from msgspec.structs import replace

from agentnb.advice import AnswerRun
from agentnb.core.questions import WaitingOnUser, answer_form, answer_in_words, choice_in_words
from agentnb.core.run.approvals import APPROVE, answerable_later
from agentnb.display.texts.judged_call import question_text
from agentnb.display.texts.labels import SHORT_ID, first_line
from agentnb.display.texts.question_labels import TYPED_NO_ANSWER, typed_answers
from agentnb.display.texts.states import next_step
from agentnb.errors import SettingsError
from agentnb.notebook.cells.notebook_runs import Answer
from agentnb.notebook.commands.recover import NO_TRUST_LOG, TRUST_LOG, resume_with
from agentnb.notebook.variable_names import unquote
from agentnb.runtime.host.live_run import LiveRun
from agentnb.session.session import Session
from agentnb.store.store import bare_id

MODEL_OPTIONS = ("-m", "--model")
ALLOW_URL = "--allow-url"
MAX_OF_A_QUESTION = 200
"""Maximum characters of a question repeated in a message."""
MAX_SUSPENDED = 50
"""Maximum suspended and interrupted runs searched for pending approvals."""
DRAFT = "plan_review"
APPROVED = (DRAFT, "approval")
"""Kinds of questions that an approval can answer."""
MAX_OF_A_PROMPT = 60
"""Maximum characters of a prompt after the id of its run."""
MAX_OF_RUNS = 10
"""Maximum waiting runs or questions listed in a message."""


def answer_command(session: Session, shell: InteractiveShell, rest: str) -> Answer | None:
    """[ID [-m MODEL] [--allow-url URL] [QUESTION]] TEXT | --decline | --cancel: answer a run: text, a choice, or JSON

    Answer a question of the run that the line names, or else of the newest waiting run, or of the only suspended one.

    A run that was suspended, or whose kernel died while a gate asked, is resumed.
    """
    first, _, text = rest.partition(" ")
    live = next((running for running in session.running() if _names(first, running.run_id)), None)
    if live is not None:
        question, text = _question_and_text(live.run_id, live.run.waiting, text.strip())
        print(_answer_live(live, question, text, question.id))
        return None
    waiting_id = _left_waiting(session, first)
    if not waiting_id and (ended := next((run_id for run_id in session.store.ids() if _names(first, run_id)), "")):
        raise _not_waiting(ended)
    if not waiting_id and (waiting_id := session.only_suspended()):
        text = rest  # it does not name a run: all of it belongs to the answer
    if not waiting_id:
        _check_not_several(session, rest)
        live = session.waiting_for_answer()
        print(_answer_live(live, live.run.waiting[0], rest))
        return None
    options, text = _options_and_text(text.strip())
    question, text = _question_and_text(waiting_id, answerable_later(session.store.load(waiting_id)), text)
    _check_text(question, text, f"%agent answer {waiting_id}")
    return resume_with(session, shell, waiting_id, {question.id: _read(question, text)}, *options)


def approve_command(session: Session, shell: InteractiveShell, rest: str) -> Answer | None:
    """[ID [-m MODEL]]: approve the plan draft or call that is waiting for you; ID is the id of the plan or run

    Approve the draft, or the call, that the line names by its id or that of its run; else the newest one that waits.
    """
    word, _, options = rest.partition(" ")
    if word.startswith("-"):
        word, options = "", rest
    live = [(live_run.run_id, question) for live_run in session.running()[::-1] for question in live_run.run.waiting]
    stored = map(session.store.load, islice(chain(session.suspended_ids(), session.interrupted_ids()), MAX_SUSPENDED))
    suspended = [(run.id, question) for run in stored for question in answerable_later(run)]
    candidates = [entry for entry in (*live, *suspended) if entry[1].kind in APPROVED and (not word or _is_meant(word, *entry))]
    matches = [entry for entry in candidates if entry[1].kind == DRAFT] or candidates
    if not matches:
        problem = f"{word!r} is not waiting for your approval" if word else "Nothing is waiting for your approval"
        raise SettingsError(problem, "%agent status shows what is running")
    if len(matches) > 1 and matches[0] not in live:
        asked = [(question.call_id if question.kind == DRAFT else run_id, question) for run_id, question in matches]
        problem = f"{len(matches)} questions are waiting for your approval"
        raise SettingsError(problem, f"Say which: %agent approve {asked[0][0]}{_list_questions(asked)}")
    run_id, question = matches[0]
    return answer_command(session, shell, " ".join([run_id, *options.split(), question.id, APPROVE]))


def _is_meant(word: str, run_id: str, question: WaitingOnUser) -> bool:
    """True if a word identifies a question, its draft, or its run. The id of a draft does not identify calls in its plan."""
    return word == question.id or (question.kind == DRAFT and word == question.call_id) or _is_part(bare_id(word), run_id)


def answers_to_offer(session: Session) -> list[str]:
    """Return the possible answers to the open question, if it offers choices."""
    asked = [question for live in session.running()[::-1] for question in live.run.waiting[:1]]
    if not asked:
        return []
    return typed_answers(asked[0]) or [choice_in_words(choice) for choice in answer_form(asked[0].schema).choices]


def _left_waiting(session: Session, part_of_id: str) -> str:
    """Find a waiting run without a process by the beginning or end of its id; return the id, or "".

    While a live run is waiting for an answer, a word shorter than a short id, without an ellipsis, is part of that answer.
    """
    part = bare_id(part_of_id)
    may_be_answer = len(part) < SHORT_ID and part == part_of_id
    if may_be_answer and any(live.run.waiting for live in session.running()):
        return ""
    if not any(_is_part(part, run_id) for run_id in session.store.ids()):  # avoids reading logs
        return ""
    matches = [run_id for run_id in session.suspended_ids() if _is_part(part, run_id)]
    died = (run_id for run_id in session.interrupted_ids() if _is_part(part, run_id))
    matches += [run_id for run_id in died if answerable_later(session.store.load(run_id))]
    if len(matches) > 1:
        raise SettingsError(
            f"{len(matches)} waiting runs match {part_of_id!r}: {', '.join(matches)}", "Give the full id of one run"
        )
    return matches[0] if matches else ""


def _check_not_several(session: Session, text: str) -> None:
    """Raise `SettingsError`, listing each run's question, if several runs are suspended and no live run is waiting.

    ``text``: the answer as typed, for the command that names a run.
    """
    suspended = [] if any(live.run.waiting for live in session.running()) else [*session.suspended_ids()]
    if len(suspended) > 1:
        runs = [*map(session.store.load, suspended[:MAX_OF_RUNS])]
        word, _, answer = text.partition(" ")
        choices = chain.from_iterable(answer_form(run.waiting[0].schema).choices for run in runs)
        is_id = answer.partition(":")[0] in map(choice_in_words, choices)
        prompts = [f" ({prompt})" if (prompt := first_line(run.prompt, MAX_OF_A_PROMPT)) else "" for run in runs]
        asked = [(run.id + prompt, run.waiting[0]) for run, prompt in zip(runs, prompts, strict=True)]
        step = cast(AnswerRun, next_step(runs[0]))  # each is suspended
        lines = _list_questions(asked, len(suspended))
        command = replace(step, run=runs[0].id, text=answer if is_id else text, lead="Name one", rest=lines)
        unknown = f"There is no waiting run {word!r}. " if is_id else ""
        raise SettingsError(f"{unknown}{len(suspended):,} runs are waiting for an answer", command)


def _options_and_text(text: str) -> tuple[tuple[str, bool | None, list[str]], str]:
    """Return the options at the start of the text, and the rest of the text.

    The options are the model after ``-m`` (or an empty string), whether to trust the log, and the URLs after ``--allow-url``.
    """
    model, trust, urls = "", None, []
    while (option := text.partition(" ")[0]) in (*MODEL_OPTIONS, ALLOW_URL, TRUST_LOG, NO_TRUST_LOG):
        text = text.partition(" ")[2].strip()
        if option in (TRUST_LOG, NO_TRUST_LOG):
            trust = option == TRUST_LOG
            continue
        value, _, text = text.partition(" ")
        text = text.strip()
        if option == ALLOW_URL:
            urls.append(unquote(value))
        else:
            model = value
    return (model, trust, urls), text


def _names(word: str, run_id: str) -> bool:
    """True if the word identifies this live run. A short word is an id only if it has an ellipsis; otherwise it may be the
    answer.
    """
    part = bare_id(word)
    return (len(part) >= SHORT_ID or part != word) and _is_part(part, run_id)


def _is_part(part: str, run_id: str) -> bool:
    return bool(part) and (run_id.startswith(part) or run_id.endswith(part))


def _not_waiting(run_id: str) -> SettingsError:
    return SettingsError(f"Run {run_id} is not waiting for an answer", "%agent status shows what is running")


def _question_and_text(run_id: str, waiting: Sequence[WaitingOnUser], text: str) -> tuple[WaitingOnUser, str]:
    """Return the question to answer, and the answer. The text may begin with the id of a question."""
    if not waiting:
        raise _not_waiting(run_id)
    first, _, answer = text.partition(" ")
    named = next((question for question in waiting if question.id == first), None)
    if named is not None:
        return named, answer.strip()
    if len(waiting) > 1:
        asked = _list_questions([(question.id, question) for question in waiting])
        command = f"%agent answer {run_id} {waiting[0].id} {text or 'TEXT'}"
        raise SettingsError(f"Run {run_id} has several open questions", f"Say which: {command}{asked}")
    return waiting[0], text


def _answer_live(live: LiveRun, question: WaitingOnUser, text: str, question_id: str | None = None) -> str:
    """Answer this question of a live run, by default the oldest open one, and return a confirmation."""
    _check_text(question, text, "%agent answer", *[f"%agent answer {word}" for word in TYPED_NO_ANSWER])
    live.answer(_read(question, text), question_id)
    manner = "without an answer" if text in TYPED_NO_ANSWER else "with your answer"
    return f"Run {live.run_id} continues {manner}"


def _read(question: WaitingOnUser, text: str) -> Any:
    """Return the typed answer or `NoAnswer`."""
    return TYPED_NO_ANSWER.get(text) or answer_in_words(question.schema, text)


def _check_text(question: WaitingOnUser, text: str, command: str, *others: str) -> None:
    """Raise `SettingsError`, listing the possible commands, if the answer is missing. ``others``: further commands."""
    if not text:
        commands = [f"{command} {answer}" for answer in typed_answers(question)] or [f"{command} TEXT", *others]
        raise SettingsError(
            f"The command does not answer the question: {_question_line(question)}", f"Write: {', or '.join(commands)}"
        )


def _list_questions(questions: Sequence[tuple[str, WaitingOnUser]], total: int = 0) -> str:
    """Return the first few questions as lines to append, each after its id or that of its run. ``total``: their number, if
    not all are passed.
    """
    shown = [f"{name}: {_question_line(question)}" for name, question in questions[:MAX_OF_RUNS]]
    more = (total or len(questions)) - len(shown)
    return "".join([f"\n  {line}" for line in [*shown, *([f"and {more:,} more"] if more else ())]])


def _question_line(question: WaitingOnUser) -> str:
    return first_line(question_text(question), MAX_OF_A_QUESTION)
