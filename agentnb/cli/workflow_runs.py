"""Runs workflows in a shell: waits on the main thread, and returns the outcome."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from typing import Any

from agentnb.advice import in_words, sentences
from agentnb.cli.command import DONE, FAILED, INTERRUPTED, LIMITED, WAITING, Outcome
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.run_progress import Progress
from agentnb.cli.terminal.second_interrupt import second_interrupt_kills
from agentnb.cli.terminal.standard_streams import complain, write_outcome
from agentnb.cli.terminal.stuck_function import GRACE_SECONDS, exit_after
from agentnb.cli.terminal.terminal_questions import TerminalQuestions
from agentnb.core.questions import WaitingOnUser, answer_form, choice_in_words
from agentnb.detect.run import Run
from agentnb.display.texts.judged_call import call_text, question_text
from agentnb.display.texts.labels import clean, first_line
from agentnb.display.texts.question_labels import brief_choices, saved_rules_lines
from agentnb.display.texts.states import chip, why
from agentnb.models.registry import check_model
from agentnb.runtime.host.host import host_here, use_host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.grants import SessionGrants
from agentnb.runtime.questions.saved_rules import rules_folder
from agentnb.runtime.workers.foreground import Foreground, RunInterrupted
from agentnb.session.choice import choose_model_of_workflow
from agentnb.workflow.workflow import Workflow

HEADING = "--- Step Context ---"
MAX_OF_A_QUESTION = 200
"""Maximum number of characters of a question repeated before the command that answers it."""
CODES = {"completed": DONE, "limited": LIMITED, "waiting_on_user": WAITING, "cancelled": INTERRUPTED}
"""Exit codes by status of the run; `FAILED` for any other status."""


def chosen_model(workflow: Workflow, name: str | None) -> str | None:
    """Return the model for agents without one, or None if no model is needed. Tells the user about a substitute.

    Chooses ``name``, or else ``AGENTNB_MODEL``, or else the simulated model (`choose_model_of_workflow`).
    """
    if name:
        check_model(name)
        return name
    chosen, note = choose_model_of_workflow(workflow, None)
    if note:
        complain(in_words(note, SHELL))
    return chosen


def top_steps(workflow: Workflow) -> list[str]:
    """Return the paths of the steps, or of the tasks."""
    if workflow.tasks is not None:
        return [task.path for task in workflow.tasks.tasks]
    return [step.id for step in workflow.spec.steps if step.kind != "goto"]


def await_run(
    start: Callable[[RunOptions], LiveRun],
    progress: Progress,
    *,
    asks: bool = False,
    again: Sequence[str] = (),
    **options: Any,
) -> Outcome:
    """Start a run, wait for it to end, and return its outcome. Plain tools run on this thread; an interrupt ends the run.

    Tools print to standard error. The program exits even if a tool never returns. ``asks``: ask the user at the terminal until
    they leave; otherwise the run is suspended at a question. ``again``: options for the command that answers the question.
    """
    foreground, output = Foreground(grace=GRACE_SECONDS), sys.stdout
    questions = TerminalQuestions(progress) if asks else None
    try:
        with second_interrupt_kills(), foreground.own_interrupts(), redirect_stdout(progress.prints()):
            run_options: dict[str, Any] = {"foreground": foreground, "can_ask": asks, "suspend": True, "show": False, **options}
            live = _start(start, RunOptions(watch=questions or progress, **run_options))

            def conclude() -> int:
                sys.stdout = output
                progress.close()
                return write_outcome(outcome_of(live.run, again))

            if questions is not None:
                questions.begin(live)
            with exit_after(live, conclude), suppress(RunInterrupted):
                live.wait_in_foreground()
    finally:
        if questions is not None:
            questions.close()
        progress.close()
    return outcome_of(live.run, again)


def _start(start: Callable[[RunOptions], LiveRun], options: RunOptions) -> LiveRun:
    """Start a run, and tell the user which saved rules apply to it."""
    grants = SessionGrants(("run", "project"))
    with use_host(replace(host_here(), grants=grants)):
        live = start(options)
    for folder, found in grants.new_saved_rules():
        for line in saved_rules_lines(folder, found, f"To withdraw one, delete its file in {rules_folder()}"):
            complain(line)
    return live


def outcome_of(run: Run, again: Sequence[str] = ()) -> Outcome:
    """Return the command's outcome for this run. ``again``: options for the command that answers its question."""
    has_steps = not run.rounds and (bool(run.step_records) or run.kind != "agent")
    context = f"{HEADING}\n{json.dumps(run.step_context, indent=2, ensure_ascii=False)}" if has_steps else ""
    if run.is_suspended and run.waiting:
        return Outcome("", WAITING, context, *_how_to_answer(run, again))
    if run.status == "completed" and not run.is_plan_rejected:
        return Outcome(f"{run.text}\n" if run.text else "", DONE, context)
    see = f"Full output: agentnb show {run.id}"
    if run.status in ("cancelled", "running"):  # still running if its tool cannot be interrupted
        return Outcome("", INTERRUPTED, context, f"The run was stopped. {see}")
    reason = why(run, SHELL)
    message = reason if run.status == "failed" and reason else ": ".join(filter(None, [chip(run), reason]))
    return Outcome("", CODES.get(run.status, FAILED), context, sentences(message, see))


def _how_to_answer(run: Run, again: Sequence[str]) -> tuple[str, str]:
    """Return the question as text, and the command that answers it."""
    question = run.waiting[0]
    which = ["--question", question.id] if len(run.waiting) > 1 else []
    command = shlex.join(["agentnb", "answer", run.id, _example(question), *which, *again])
    listed = brief_choices(question)
    text, call = clean(question_text(question)), call_text(question)
    asked = first_line(text, MAX_OF_A_QUESTION) + (f" ({first_line(listed, 200)})" if listed else "")
    if call or len(text) > MAX_OF_A_QUESTION:
        asked += f" To see the whole {'call' if call else 'question'}: agentnb show {run.id}."
    more = f" (one of {len(run.waiting)} questions)" if which else ""
    return f"The run is waiting for you{more}: {asked} Answer it:", command


def _example(question: WaitingOnUser) -> str:
    """Return an example of a valid answer to the question, as text to type."""
    value = _value(question.schema)
    return value if isinstance(value, str) else choice_in_words(value)


def _value(schema: dict[str, Any]) -> Any:
    if choices := answer_form(schema).choices:
        return choices[0]
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        wanted = schema.get("required", fields)
        return {name: _value(fields[name]) for name in wanted if isinstance(fields.get(name), dict)}
    return {"integer": 1, "number": 1, "array": [], "null": None}.get(str(schema.get("type")), "TEXT")
