"""The actions of a card, by the name in the browser's message.

Each action takes the run and the message, does its work, and returns the requested HTML, if any. Actions outside
`IMMEDIATE_ACTIONS` may take a moment, so they do not run on the thread that receives messages. Actions in `DRAWN` take longer
as the history grows, and must not hold up the run either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from agentnb.chat.logged_context import rules_of_run
from agentnb.chat.plans.draft_edits import add_step, check_edit, fill_step, move_step, remove_step
from agentnb.chat.plans.draft_question import edit_answer
from agentnb.chat.plans.known_drafts import drafts_of, spec_of
from agentnb.chat.plans.plan_execution import specs_of_plans
from agentnb.context.request_history import sent_request
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.run.approvals import ALWAYS, DENY, is_of_draft
from agentnb.display.card.request_view import request_view_html
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html
from agentnb.display.parts.questions.answer_controls import CANCEL_QUESTION
from agentnb.display.parts.questions.call_view import FILL, call_part_html
from agentnb.display.parts.questions.draft_view import DRAFT, STEP_FORM
from agentnb.display.parts.questions.schema_form import EDIT_FORM, FORM, form_html
from agentnb.display.parts.tool_card import tool_body_html
from agentnb.errors import SettingsError
from agentnb.notebook.card.unsaved import KEY, save_page
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.questions.question_forms import answer_of_form
from agentnb.tools.todos.board import as_todo_board
from agentnb.workflow.plans.plan_spec import PlanSpec

Message = dict[str, Any]


def _tick(live: LiveRun, message: Message) -> None:
    board, number = as_todo_board(live.board), int(message["key"])
    done = any(todo.id == number and todo.status == "completed" for todo in board)
    (board.reopen if done else board.complete)(number)


def _move(live: LiveRun, message: Message) -> None:
    before = message.get("before")
    as_todo_board(live.board).move(int(message["key"]), before=None if before is None else int(before))


def _saw(live: LiveRun, message: Message) -> Html:
    """Return what the model saw in a round."""
    return request_view_html(sent_request(live.run, int(message["round"])), whole=True)


def _all(live: LiveRun, message: Message) -> Html:
    """Return the complete form of a result that was shown only in part."""
    records = (record for item in reversed(live.run.rounds) for record in item.records)
    record = next((record for record in records if record.call.id == str(message["call"])), None)
    return NOTHING if record is None else tool_body_html(record, Form(whole=True))


def _call_part(live: LiveRun, message: Message) -> Html:
    """Return a long part of the call that an open question concerns."""
    question_id, _, kind = str(message["key"]).removeprefix(f"{FILL}:").partition(":")
    question = _open_question(live, question_id)
    return NOTHING if question is None else call_part_html(question, kind)


def _edit_form(live: LiveRun, message: Message) -> Html:
    """Return the form for the arguments of the call that an open question concerns."""
    question = _open_question(live, str(message["key"]).removeprefix(f"{EDIT_FORM}:"))
    return NOTHING if question is None else form_html(question)


def _open_question(live: LiveRun, question_id: str) -> WaitingOnUser | None:
    return next((item for item in live.run.waiting if item.id == question_id), None)


def _choose(live: LiveRun, message: Message) -> None:
    live.answer(msgspec.json.decode(str(message["value"])), str(message["key"]))


def _form(live: LiveRun, message: Message) -> None:
    """Answer with a filled-in form. If its question has been closed meanwhile, it is refused like any other answer."""
    question_id, texts = str(message["key"]), {str(key): str(text) for key, text in message["fields"]}
    question = _open_question(live, question_id)
    live.answer(None if question is None else answer_of_form(question, texts), question_id)


def _always(live: LiveRun, message: Message) -> None:
    """Approve the call and always allow such calls."""
    live.answer({ALWAYS: str(message["rule"]).strip(), "reach": str(message["reach"])}, str(message["key"]))


def _reject(live: LiveRun, message: Message) -> None:
    reason = str(message["text"]).strip()
    live.answer({DENY: reason} if reason else DENY, str(message["key"]))


def _change_draft(live: LiveRun, message: Message) -> None:
    """Move, remove or add a step in the waiting draft."""
    op, position = str(message["op"]), int(message["place"])
    _answer_with(live, message, lambda plan, specs: CHANGES[op](plan, position))


def _save_step(live: LiveRun, message: Message) -> None:
    """Change a step in the waiting draft, as entered in the step's form."""
    texts, position = {str(key): str(text) for key, text in message["fields"]}, int(message["place"])
    _answer_with(live, message, lambda plan, specs: fill_step(plan, position, specs, texts))


def _answer_with(live: LiveRun, message: Message, change: Callable[[PlanSpec, list[ToolSpec]], PlanSpec]) -> None:
    """Answer the question about a draft with the changed steps, after checking the change."""
    plan_id, run = str(message["key"]), live.run
    question = next((item for item in run.waiting if is_of_draft(run, item) and item.call_id == plan_id), None)
    if question is None:
        raise SettingsError("The draft is no longer waiting for you")
    specs = specs_of_plans(run.tools)
    plan = spec_of(drafts_of(run)[plan_id])
    edited = check_edit(plan, change(plan, specs).chat_data["steps"], specs, rules_of_run(run))
    live.answer(edit_answer(edited), question.id)


CHANGES: dict[str, Callable[[PlanSpec, int], PlanSpec]] = {
    "up": lambda plan, place: move_step(plan, place, place - 1),
    "down": lambda plan, place: move_step(plan, place, place + 1),
    "remove": remove_step,
    "add": lambda plan, place: add_step(plan),
}
"""The changes to a draft that a single button makes."""


IMMEDIATE_ACTIONS: dict[str, Callable[[LiveRun, Message], None]] = {
    "stop": lambda live, message: live.stop("the Stop button"),
    "pause": lambda live, message: live.pause(),
    "resume": lambda live, message: live.resume(),
    "suspend": lambda live, message: live.suspend(),
    "say": lambda live, message: live.say(str(message["text"]), now=bool(message.get("now"))),
    "choose": _choose,
    ALWAYS: _always,
    "reject": _reject,
    FORM: _form,
    "answer": lambda live, message: live.answer_in_words(str(message["text"]), str(message["key"])),
    "decline": lambda live, message: live.decline(question_id=str(message["key"])),
    CANCEL_QUESTION: lambda live, message: live.cancel_question(str(message["key"])),
}
"""Actions that only set an event."""
NOTES = {
    "pause": "Pausing before the next round",
    "suspend": "Suspending once the running calls end",
    "say": "Sent. The model reads it in the next round, an external agent as its next prompt",
}
"""Notes to the person about actions without an immediately visible effect."""
DRAWN: dict[str, Callable[[LiveRun, Message], Html]] = {
    "saw": _saw,
    "all": _all,
    FILL: _call_part,
    EDIT_FORM: _edit_form,
    KEY: save_page,
}
"""Actions that draw on request. A run may be read from any thread, because its lists only grow."""
ACTIONS: dict[str, Callable[[LiveRun, Message], object]] = {
    **IMMEDIATE_ACTIONS,
    **DRAWN,
    DRAFT: _change_draft,
    STEP_FORM: _save_step,
    "tick": _tick,
    "move": _move,
    "add": lambda live, message: as_todo_board(live.board).add(str(message["text"])),
    "remove": lambda live, message: as_todo_board(live.board).remove(int(message["key"])),
}
