"""Claude Code sessions: JSON Lines, with one line for each piece of a message.

``parentUuid`` arranges the lines in a tree. A session is a run; so are each sub-agent, whether in the same file or its own, and
each branch that the person abandoned by rewinding to an earlier message. Lines that a branch shares with others, or that a
forked or resumed session copied, are the run's history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from agentnb.core.log.events import ForkedFrom
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.claude_lines import ClaudeLog
from agentnb.interchange.formats.message_content import value_at
from agentnb.interchange.formats.session_log import drop_empty, first_records, run_id_of, sort_by_links, text_at
from agentnb.interchange.trace_file import TraceFile

NAME = "claude_code"
TITLE = "session of Claude Code"
RECORDS_END = "the last `stop_reason`, an interruption, an error"
_KINDS = frozenset(
    {"user", "assistant", "system", "progress", "summary", "file-history-snapshot", "queue-operation", "attachment"}
)
_MESSAGES = frozenset({"user", "assistant"})
_OWN_FILES = ("agent-{side}.jsonl", "{session}_agent-{side}.jsonl", "{session}/subagents/agent-{side}.jsonl")
"""File names of sub-agents, relative to the folder that holds the session's file."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
MAX_SHARED_MESSAGES = 100_000
"""Maximum shared messages repeated in the branches of a file; any further branches start without them."""
_SPAWNING = frozenset({"Task", "Agent"})
"""Tools that start a sub-agent."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file)
    return "" if any(map(_is_line, records)) else "its lines have no type with a sessionId, or with a uuid and a message"


def _is_line(record: dict[str, Any]) -> bool:
    kind = text_at(record, "type")
    if kind not in _KINDS or ("session_id" in record and "sessionId" not in record):  # print mode
        return False
    if kind == "summary":
        return "leafUuid" in record
    if kind == "file-history-snapshot":
        return "snapshot" in record
    is_message = isinstance(record.get("message"), dict) and "uuid" in record
    return "sessionId" in record if kind not in _MESSAGES else is_message


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each session, followed by those of its sub-agents and abandoned branches."""
    yield from runs_of(file, file.numbered_records(), NAME)


def runs_of(file: TraceFile, records: Iterable[tuple[int, Any]], name: str) -> Iterator[Run]:
    """Yield the runs in these numbered lines."""
    tree = _tree_of(file, records)
    conversations = [
        conversation
        for conversation in tree.conversations()
        if not (conversation.is_continued and _has_own_file(conversation.session, file))
    ]
    own_files: set[str] = set()

    def of_own_files() -> Iterator[Run]:
        for run in _in_own_files(file, name, conversations):
            own_files.add(run.id)
            yield run

    runs = chain(_write_runs(file, name, conversations, tree.titles), of_own_files())
    yield from (run for run in with_nested_usage(runs) if run.id not in own_files)
    if not conversations:
        file.note("It contains no messages")


def _in_own_files(file: TraceFile, name: str, conversations: list[_RunLines]) -> Iterator[Run]:
    """Yield the runs of these sessions' sub-agents that have their own files next to this one.

    Used only to add their usage to the sessions; they are yielded as runs when their own files are read.
    """
    sides_in_file = {conversation.side for conversation in conversations}
    for conversation in conversations:
        session = conversation.session
        sides = {text_at(started, "agent_id") for started in conversation.log.recorded.get("subagents") or ()}
        for side in sorted(sides - sides_in_file) if not conversation.side and conversation.left_at < 0 else ():
            if not (_ID.fullmatch(side) and _ID.fullmatch(session)):  # used in file names
                continue
            with suppress(OSError, TraceError):  # reported when that file is read
                yield from _of_side(file, name, session, side)


def _has_own_file(session: str, file: TraceFile) -> bool:
    name = f"{session}.jsonl"
    return bool(_ID.fullmatch(session)) and file.base_name != name and file.beside(name) is not None


def _of_side(file: TraceFile, name: str, session: str, side: str) -> Iterator[Run]:
    """Yield the run of a sub-agent from its own file, if it has one."""
    for pattern in _OWN_FILES:
        side_file = file.beside(pattern.format(session=session, side=side))
        if side_file is None or sniff(side_file):
            continue
        tree = _tree_of(side_file, side_file.records())
        of_side = [
            conversation
            for conversation in tree.conversations()
            if (conversation.side, conversation.session) == (side, session)
        ]
        yield from _write_runs(side_file, name, of_side, tree.titles)
        return


def _write_runs(file: TraceFile, name: str, conversations: list[_RunLines], titles: dict[str, str]) -> Iterator[Run]:
    for conversation in conversations:
        with file.guard(f"line {conversation.line}"):
            yield conversation.write(
                file, name, position=f"line {conversation.line}" if len(conversations) > 1 else "", titles=titles
            )


def _tree_of(file: TraceFile, records: Iterable[tuple[int, Any]]) -> _Tree:
    """Group the lines into conversations."""
    tree = _Tree()
    for number, record in sort_by_links(records, _links):
        with file.guard(f"line {number}"):
            tree.take(number, record)
    return tree


def _links(record: dict[str, Any]) -> tuple[str, str]:
    """Return the ids of a line and its parent line; empty if missing."""
    return text_at(record, "uuid"), text_at(record, "parentUuid", "logicalParentUuid")


@dataclass(slots=True, eq=False)
class _RunLines:
    """The messages of a single run."""

    line: int
    side: str = ""
    """Id of the sub-agent; empty for a session."""
    parent: _RunLines | None = None
    """The conversation that begins in the same way as this one, if any."""
    left_at: int = -1
    """Round at which this branch was abandoned, and ``parent`` continued instead; -1 for other conversations."""
    is_continued: bool = False
    """True if another session in the file continues this one, and has copied its lines."""
    agent: str = ""
    log: ClaudeLog = field(default_factory=ClaudeLog)
    uuids: list[str] = field(default_factory=list)
    branches: list[_RunLines] = field(default_factory=list)
    """The abandoned branches, in order of their rounds."""
    prompts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """For each id of a preceding message: the line of the last prompt after it, and its index in ``uuids`` and in the log's
    items.
    """

    @property
    def session(self) -> str:
        """The session id."""
        return text_at(self.log.recorded, "session")

    @property
    def run_id(self) -> str:
        """The run id; empty if the lines have no ids."""
        session = self.session
        if self.left_at >= 0 and self.parent is not None:
            return run_id_of(self.parent.run_id, "left", str(self.line))
        return run_id_of(session, "agent", self.side) if self.side else run_id_of(session)

    def write(self, file: TraceFile, name: str, position: str, titles: dict[str, str]) -> Run:
        """Return the run."""
        recorded = dict(self.log.recorded)
        summaries = [title for leaf, title in titles.items() if leaf in self.uuids or leaf == self.session]
        recorded |= drop_empty(titles=summaries)
        fields: dict[str, Any] = {"settings": {"recorded": recorded}}
        parent_id = None
        if self.left_at >= 0 and self.parent is not None:
            fields |= {"tags": ("left",), "forked_from": ForkedFrom(self.parent.run_id, self.left_at)}
        elif self.side:
            fields["agent"] = self.agent or "subagent"
            parent_id = run_id_of(self.session) or None
        elif self.parent is not None:
            fields["continued_from"] = self.parent.run_id
        elif self.log.copied_from:
            fields["forked_from"] = ForkedFrom(run_id_of(self.log.copied_from), self.log.copied_replies)
        model = self.log.model
        writer = file.writer(name, position, run_id=self.run_id, parent_id=parent_id, model=model, **fields)
        return self.log.write(writer, model)


class _Tree:
    """All lines so far, grouped into conversations."""

    def __init__(self) -> None:
        self._is_linked = False
        """True if lines have parents, in which case a second prompt without a parent starts a new conversation."""
        self._shared = 0
        self.titles: dict[str, str] = {}
        self._sessions: dict[str, _RunLines] = {}
        self._sides: dict[str, _RunLines] = {}
        self._left: list[_RunLines] = []
        self._owner: dict[str, _RunLines] = {}
        self._message: dict[str, str] = {}
        """For each line, the nearest message at or above it."""
        self._spawned: dict[str, str] = {}
        """The kind of each sub-agent, by its prompt."""

    def conversations(self) -> list[_RunLines]:
        """Return the conversations that have their own messages, each session before its sub-agents and branches."""
        inner = [
            conversation
            for conversation in (*self._left, *self._sides.values())
            if len(conversation.log.items) > conversation.log.copied
        ]
        return [*[conversation for conversation in self._sessions.values() if conversation.log.items], *inner]

    def take(self, line: int, record: dict[str, Any]) -> None:
        """Add a line."""
        kind = record["type"]
        if kind in ("summary", "ai-title", "custom-title"):
            title = text_at(record, "summary", "aiTitle", "customTitle")
            self.titles[text_at(record, "leafUuid", "sessionId")] = title
            return
        uuid, parent = _links(record)
        if uuid and uuid in self._owner:  # repeated by a resumed session
            return
        if kind not in _KINDS or kind == "file-history-snapshot":
            return
        self._is_linked |= parent in self._owner
        conversation = self._conversation(line, record, uuid, parent)
        before = self._message.get(parent, parent)
        is_start = not conversation.side and not before and record.get("parentUuid", "") is None
        if kind in _MESSAGES and (before or is_start) and conversation.log.is_prompt(record):
            self._add_prompt(conversation, line, before)
        if uuid:
            self._owner[uuid] = conversation
            self._message[uuid] = before if before and kind not in _MESSAGES else uuid
            conversation.uuids.append(uuid)
        if kind != "progress":
            conversation.log.take(record)
        if kind == "assistant":
            self._note_spawned(record)

    def _conversation(self, line: int, record: dict[str, Any], uuid: str, parent: str) -> _RunLines:
        side = text_at(record, "agentId")
        above = self._owner.get(parent)
        if not side and record.get("isSidechain") is True:
            side = above.side if above is not None and above.side else uuid or "side"
        if side:
            if side not in self._sides:
                self._sides[side] = _RunLines(line, side, agent=self._kind_of_agent(record))
            return self._sides[side]
        session = text_at(record, "sessionId")
        if above is not None and not above.side:
            if session in ("", above.session) or not above.session or record["type"] not in _MESSAGES:
                return above
            if session not in self._sessions:  # a continuation that copied the other's lines
                above.is_continued = True
                self._sessions[session] = _RunLines(line, parent=above)
                self._share_beginning(above, self._sessions[session])
        return self._sessions.setdefault(session, _RunLines(line))

    def _add_prompt(self, one: _RunLines, line: int, before: str) -> None:
        """Record a prompt. If there was an earlier one at the same position, this is a rewind, and later messages become a
        branch.
        """
        earlier = one.prompts.get(before)
        if earlier is not None and (before or self._is_linked):
            from_line, from_uuid, from_item = earlier
            branch = _RunLines(from_line, one.side, parent=one)
            branch.uuids, one.uuids = one.uuids[from_uuid:], one.uuids[:from_uuid]
            after, one.log.items = one.log.items[from_item:], one.log.items[:from_item]
            copied_after, one.log.copied = max(0, one.log.copied - from_item), min(one.log.copied, from_item)
            branch.left_at = kept = self._share_beginning(one, branch)
            moved = len(branch.log.items) - from_item
            branch.log.items += after
            branch.log.copied += copied_after
            while one.branches and one.branches[-1].left_at > kept:  # forked from the part moved to this branch
                inner = one.branches.pop()
                inner.parent, inner.left_at = branch, inner.left_at - kept
                branch.branches.insert(0, inner)
            one.branches.append(branch)
            branch.log.recorded = {name: one.log.recorded[name] for name in ("session", "cwd") if name in one.log.recorded}
            self._owner |= dict.fromkeys(branch.uuids, branch)
            branch.prompts = {
                message: (at_line, uuid - from_uuid, item + moved)
                for message, (at_line, uuid, item) in one.prompts.items()
                if uuid >= from_uuid and message != before
            }
            one.prompts = {message: prompt for message, prompt in one.prompts.items() if prompt[1] < from_uuid}
            self._left.append(branch)
        one.prompts[before] = line, len(one.uuids), len(one.log.items)

    def _share_beginning(self, one: _RunLines, other: _RunLines) -> int:
        """Copy the lines so far to the start of another conversation, and return how many original replies they contain."""
        self._shared += len(one.log.items)
        if self._shared <= MAX_SHARED_MESSAGES:
            other.log.items = [*one.log.items]
            other.log.copied = len(other.log.items)
        return len(one.log.replies) - one.log.copied_replies

    def _note_spawned(self, record: dict[str, Any]) -> None:
        for block in record["message"]["content"]:
            if value_at(block, "type") == "tool_use" and block.get("name") in _SPAWNING:
                arguments = block.get("input") or {}
                self._spawned[text_at(arguments, "prompt")] = text_at(arguments, "subagent_type")

    def _kind_of_agent(self, record: dict[str, Any]) -> str:
        from_line = text_at(record, "attributionAgent", "agentType")
        content = (record.get("message") or {}).get("content")
        text = content if isinstance(content, str) else "".join(_texts(content))
        return from_line or self._spawned.get(text, "")


def _texts(content: Any) -> Iterator[str]:
    for block in content if isinstance(content, list) else ():
        if value_at(block, "type") == "text":
            yield text_at(block, "text")
