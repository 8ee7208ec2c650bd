"""Approval: asks the person, or the function that decides for them, whether a tool call may run."""

from __future__ import annotations

import hashlib
import inspect
import os
import stat
from collections.abc import Awaitable, Callable
from difflib import unified_diff
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from agentnb.core.log.stores import MAX_KEPT_FILE_BYTES
from agentnb.core.messages import ToolCall, encodable
from agentnb.core.questions import GrantReach, WaitingOnUser, new_question, rule_parts
from agentnb.core.redaction import holds_key, redact
from agentnb.core.run.approvals import (
    ALWAYS,
    APPROVE,
    ASKED_BY_RULES,
    DENY,
    EDIT,
    NEVER,
    Decision,
    approval_schema,
    arguments_as_json,
    decision,
    judged_call,
)
from agentnb.detect.run import Run
from agentnb.errors import Declined, NobodyToAsk, SettingsError
from agentnb.policies.gates import Ask, as_copy
from agentnb.policies.gates.gate_verdicts import AskByRules, AskUnsettled
from agentnb.policies.permissions.approval_mode import declared_effects
from agentnb.policies.permissions.offered_grants import grants_about
from agentnb.runtime.questions.answerers import AnswerQuestion, Approve, Program, QuestionSuspended, Unanswered
from agentnb.runtime.questions.elicitation import CallElicitor, Elicitation
from agentnb.runtime.questions.grants import ReachingGrants
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.builtin.files.confined import ConfinedPath, confine, open_file, open_folder, read_beginning
from agentnb.tools.builtin.files.nature import may_hold_keys
from agentnb.tools.subject import flag_of, kind_of_subject, origin_of, shows_change, text_after, value_of_subject
from agentnb.tools.tool import CallSync, Tool, ToolRefused

MAX_BYTES = 1_000_000
"""Maximum size in bytes of a file or text for which a diff is shown, since comparison time grows with size."""


class FileChange(NamedTuple):
    """A change to a file."""

    diff: str = ""
    """Unified diff; empty if it cannot be shown, or if nothing changes."""
    before: str = ""
    """Digest of the file and its path when the diff was made; empty if the call does not write to a readable file."""

    may_hold_keys: bool = False
    """True if the file's name suggests that it holds keys; no diff is made in that case."""


NO_CHANGE = FileChange()


def file_change(tool: Tool | None, arguments: Any, work_dir: Path) -> FileChange:
    """Return the change that a call would make to a file in the working folder.

    A file outside the folder is not read: the diff goes into the log, and the model may name any path.
    """
    target = _place(tool, arguments, work_dir) if shows_change(tool) else None
    if target is None:
        return NO_CHANGE
    data, before = _read(target)
    if may_hold_keys(target.shown, work_dir):
        return FileChange(before=before, may_hold_keys=True)
    if data is not None and len(data) > MAX_BYTES:
        return FileChange(before=before)
    try:
        old = None if data is None else data.decode()
    except UnicodeDecodeError:
        return FileChange(before=before)
    new = text_after(tool, arguments, old)
    if new is None or len(new) > MAX_BYTES:
        return FileChange(before=before)
    before_lines, lines = (text.splitlines(keepends=True) for text in (old or "", new))
    diff = unified_diff(before_lines, lines, "/dev/null" if old is None else target.relative, target.relative)
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff)
    return FileChange("".join(ended), before)


def holds_known_key(tool: Tool | None, arguments: Any, work_dir: Path) -> bool:
    """Return whether a call that writes to a file in the working folder would overwrite or write a known key."""
    target = _place(tool, arguments, work_dir) if flag_of(tool) == "file_write" else None
    if target is None:
        return False
    current = _first_bytes(target, MAX_KEPT_FILE_BYTES)
    return holds_key(b"" if current is None else current[0]) or holds_key(arguments_as_json(arguments).encode())


def file_digest(tool: Tool | None, arguments: Any, work_dir: Path) -> str:
    """Return the current digest of the file that a call writes; empty in the same cases as in `FileChange`."""
    target = _place(tool, arguments, work_dir)
    return "" if target is None else _read(target)[1]


def _place(tool: Tool | None, arguments: Any, work_dir: Path) -> ConfinedPath | None:
    """Return the path that a call writes to, if it is in the working folder and is a regular or new file."""
    value = value_of_subject(tool, arguments)
    if kind_of_subject(tool) != "path" or value is None:
        return None
    try:
        target = confine(value, work_dir)
        return target if target.names and stat.S_ISREG(os.lstat(target.real).st_mode) else None
    except FileNotFoundError:
        return target
    except (ToolRefused, OSError):
        return None


def _read(place: ConfinedPath) -> tuple[bytes | None, str]:
    """Return up to ``MAX_BYTES + 1`` bytes of a file (None if it cannot be read) and its digest."""
    path = f"{place.real}\0".encode("utf-8", "surrogateescape")
    beginning = _first_bytes(place, MAX_BYTES + 1)
    if beginning is None:
        return None, hashlib.sha256(b"absent " + path).hexdigest()
    data, status = beginning
    suffix = f" {status.st_size} {status.st_mtime_ns}" if len(data) > MAX_BYTES else ""
    return data, hashlib.sha256(path + data + suffix.encode()).hexdigest()


def _first_bytes(place: ConfinedPath, most: int) -> tuple[bytes, os.stat_result] | None:
    """Return the first bytes of a file and its status, or None if it cannot be read."""
    try:
        with open_folder(place, len(place.names) - 1) as folder, open_file(folder, place) as (file, status):
            return read_beginning(file, most), status
    except (ToolRefused, OSError):
        return None


OWN_RULE = "approval"
"""Rule of a question whose gate does not name one."""
KEEPS_CHANGING = "The file keeps changing before the question is answered."
CHANGED_SINCE = "The file has changed since you were asked."
KEY_FILE = "The change is not shown because the file name suggests that it contains keys."
NOT_ALLOWED = "The person did not allow it."
NOBODY = "It needs the person's permission, but no person is attached to this run."
NEVER_ASKED = f"It needs the person's permission, but this run does not ask for permission (approve={NEVER})."
NOT_OBTAINED = "It needs the person's permission, but the function that decides for them failed."


def approval_question(
    ask: Ask, call: ToolCall, tool: Tool, work_dir: Path, *, reaching: ReachingGrants | None = None, keeps_files: bool = False
) -> WaitingOnUser:
    """Return a gate's question about a call. ``reaching``: stores grants; ``keeps_files``: whether files are backed
    up before calls change them.
    """
    effects = ", ".join(sorted(declared_effects(tool) or ()))
    is_of_rules = isinstance(ask, AskByRules)
    may_remember = isinstance(ask, AskByRules) and not ask.is_unclear
    settles = isinstance(ask, AskUnsettled)
    reaches: tuple[GrantReach, ...] = ("run",) if reaching is None else reaching.reaches
    grants = grants_about(call, tool, work_dir, reaches=reaches, settles=settles) if may_remember else ()
    command = (value_of_subject(tool, call.arguments) or "") if kind_of_subject(tool) == "command" else ""
    change = file_change(tool, call.arguments, work_dir)
    shown: dict[str, Any] = {"command": encodable(command), "diff": encodable(change.diff), "before": change.before}
    shown |= {"grants": grants, "origin": origin_of(tool)}
    rule = OWN_RULE if ask.rule == ASKED_BY_RULES and not is_of_rules else ask.rule or OWN_RULE
    cannot_undo = keeps_files and holds_known_key(tool, call.arguments, work_dir)
    folder = reaching.folder if reaching is not None and "project" in [grant.reach for grant in grants] else ""
    if may_remember and (agent := getattr(tool, "remembering_agent", None)) is not None:  # tools of external agents
        shown["agent"], shown["agent_words"] = agent(call.id)
    judged = judged_call(call, rule, effects, folder=folder, cannot_undo=cannot_undo, **shown)
    approvals = (*ask.approvals, *((ALWAYS,) if grants else ()))
    schema = approval_schema(approvals, tool.spec.input_schema, judged.later_offers)
    words_of = getattr(tool, "words_of", None)  # likewise
    lines = [ask.question, KEY_FILE if change.may_hold_keys else "", words_of(call.id) if words_of is not None else ""]
    return new_question("approval", "\n".join(filter(None, lines)), schema, call.id, judged)


def is_outdated(question: WaitingOnUser, call: ToolCall, tool: Tool | None, work_dir: Path) -> bool:
    """Return whether the file that the call writes has changed since the change was shown in the question."""
    shown = "" if question.about is None else question.about.before
    return bool(shown) and shown != file_digest(tool, call.arguments, work_dir)


def is_of_this_tool(question: WaitingOnUser, tool: Tool | None) -> bool:
    """Return whether a question from an earlier process was about this tool: an MCP server's tool may have changed since."""
    before, current = None if question.about is None else question.about.origin, origin_of(tool)
    return before is None or current is None or redact(current).identities == before.identities


def refresh_question(
    question: WaitingOnUser, call: ToolCall, tool: Tool, work_dir: Path, *, keeps_files: bool = False
) -> WaitingOnUser:
    """Return the question with an up-to-date diff of the file."""
    change = file_change(tool, call.arguments, work_dir)
    cannot_undo = keeps_files and holds_known_key(tool, call.arguments, work_dir)
    shown = {"diff": redact(encodable(change.diff)), "before": change.before, "cannot_undo": cannot_undo}
    judged = question.about and replace(question.about, **shown)
    return replace(question, message=f"{CHANGED_SINCE}\n{question.message}", about=judged, id="")


def _with_rule(reason: str, question: WaitingOnUser) -> str:
    """Return why a call is denied without asking, and the narrow rule that would allow it, if there is one."""
    judged = question.about
    rule = next((grant.rule for grant in judged.grants if rule_parts(grant.rule)[1]), "") if judged else ""
    return f"{reason} A rule that allows it: {rule}" if rule else reason


def answer_program(answer: AnswerQuestion) -> Program:
    """Wrap a function that answers questions in a `Program`."""

    async def program(question: WaitingOnUser) -> Any:
        # In a thread of its own: the main thread may be inside the tool that asks.
        value = await _result(answer, question, call_plain=call_in_thread)
        if value is None:
            raise Declined("There is no answer")
        return value

    return program


async def _result(function: Callable[..., Any], *args: Any, call_plain: Callable[[Callable[[], Any]], Awaitable[Any]]) -> Any:
    """Call a function supplied by the person, sync or async, and return its result. ``call_plain`` calls a sync one."""
    if any(map(inspect.iscoroutinefunction, (function, type(function).__call__))):
        return await function(*args)
    value = await call_plain(partial(function, *args))
    return await value if inspect.isawaitable(value) else value


class Approval:
    """Asks for permission to run calls. If nobody can answer, the call is denied."""

    def __init__(self, run: Run, elicitation: Elicitation, call_sync: CallSync) -> None:
        self._run = run
        self._elicitation = elicitation
        self._call_sync = call_sync

    async def ask(self, call: ToolCall, question: WaitingOnUser, *, suspends: bool = False) -> Decision | None:
        """Return the decision about this call; if there is no answer, a denial with the reason.

        Returns None, leaving the question open, if the run is being suspended, or with ``suspends`` if nobody can be
        asked.
        """
        book = self._elicitation.book
        if self._elicitation.permissions.mode.never_asks:
            earlier = book.find_expected(question)
            if earlier is None or not earlier.has_answer:
                book.drop_permission(call.id)
                return Decision(False, _with_rule(NEVER_ASKED, question))
        program: Program | None = partial(self._ask_approvers, call) if any(self._elicitation.approvers) else None
        asker = CallElicitor(self._elicitation, call.id)
        try:
            verdict = decision(await asker.ask_question(question, program, may_wait=suspends))
        except NobodyToAsk:
            return Decision(False, _with_rule(NOBODY, question))
        except QuestionSuspended:
            return None
        except Unanswered:
            return Decision(False, NOT_OBTAINED)
        except Declined:
            verdict = Decision(False)
        finally:
            asker.close()
        if verdict.approved:
            return verdict
        return Decision(False, f"{NOT_ALLOWED} They said: {verdict.reason}" if verdict.reason else NOT_ALLOWED)

    async def _ask_approvers(self, call: ToolCall, _: WaitingOnUser) -> Any:
        """Ask the approve functions, innermost first, and return an answer as a person would give it, or None to leave the
        decision to the person.

        The function of a nested run can only deny: the outermost run's function approves, or else the person does.
        """
        outermost, *inner = self._elicitation.approvers
        for approve in filter(None, inner[::-1]):
            verdict = await self._ask_approver(approve, call)
            if verdict == DENY or (isinstance(verdict, dict) and DENY in verdict):
                return verdict
        return None if outermost is None else await self._ask_approver(outermost, call)

    async def _ask_approver(self, approve: Approve, call: ToolCall) -> Any:
        value = await _result(approve, as_copy(call), self._run, call_plain=lambda plain: self._call_sync(plain, False))
        if value is None or isinstance(value, bool):
            return {None: None, True: APPROVE, False: DENY}[value]
        if isinstance(value, str | dict):
            if value in (APPROVE, DENY):  # words that a person answers with
                return value
            return {DENY: value} if isinstance(value, str) else {EDIT: value}
        hint = "Return True, False, a reason, changed arguments as a dict, or None to ask the person"
        raise SettingsError(f"approve= returned {value!r}", hint)
