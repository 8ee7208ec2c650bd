"""The content of a live card as data: the pieces of the run so far, and those that have changed since the last frame.

Independent of widgets and threads. Each frame has a number, so a browser that missed one can request the complete picture,
which is equivalent to all the frames together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from agentnb.acp.external_agent import is_external
from agentnb.core.log.events import (
    AnyEvent,
    CommandReceived,
    Delta,
    Event,
    Progress,
    RoundFinished,
    RoundStarted,
    RunEnd,
    StreamEnd,
    TextDelta,
    ThinkingDelta,
    ToolPrinted,
    ToolProgress,
    ToolsOffered,
)
from agentnb.core.messages import encodable
from agentnb.core.questions import AskedQuestion, by_call
from agentnb.core.redaction import redact
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.core.todos import Todo
from agentnb.detect.run import Run
from agentnb.display.card.drawn_pieces import DrawnPieces
from agentnb.display.card.html import notes_html
from agentnb.display.card.nested import NestedRuns
from agentnb.display.card.workflow_card import LiveSteps
from agentnb.display.form import Form, effects_of
from agentnb.display.markdown.streamed_markdown import Blocks
from agentnb.display.markup import NOTHING, Html, join_html, tag, words
from agentnb.display.parts.finding_links import LiveFindings
from agentnb.display.parts.head import chip_html, meta_html, model_html, totals_html
from agentnb.display.parts.round_details import compactions_html, retries_html
from agentnb.display.parts.round_pieces import (
    LAST,
    Pieces,
    call_html,
    round_pieces,
    routine_updates,
    text_html,
    thinking_html,
    todo_updates_html,
)
from agentnb.display.parts.run_problems import trouble_links
from agentnb.display.parts.run_totals import Totals
from agentnb.display.parts.todo_list import todos_html
from agentnb.display.texts.elapsed import Elapsed
from agentnb.display.texts.event_lines import AlsoHappened, is_listed
from agentnb.display.texts.labels import clean
from agentnb.display.texts.states import chip, is_going_on
from agentnb.display.texts.user_messages import UserMessages

Frame = dict[str, Any]
ASKED = ("pause", "resume", "say")
"""Commands that the run's loop reads later, between rounds."""
MAX_ASKED = 2_000
"""Maximum characters shown of a message that the run has not read yet."""


class LiveCard:
    """The growing picture of one run. Pass it every event and delta, and take a frame whenever one may be sent."""

    def __init__(self, *, controls: bool = True) -> None:
        """``controls``: whether clicks reach the run while it is live."""
        self.run = Run()
        self._controls = controls
        self.nested = NestedRuns()
        """The nested runs that calls started."""
        self._findings = LiveFindings()
        self._form = Form(live=controls, nested=self.nested.html, marks=self._findings.marks, run=self.run)
        self._totals = Totals()
        self._user_messages = UserMessages()
        self._also = AlsoHappened()
        self._elapsed = Elapsed()
        self._steps: LiveSteps | None = None
        """The pieces of a run that works in steps."""
        self._asked: list[tuple[str, str]] = []
        self._rounds: dict[int, Pieces] = {}
        self._drawn = DrawnPieces()
        self._progress: dict[str, Progress] = {}
        """Progress of each call in the open round."""
        self._printed: dict[str, str] = {}
        """The last output printed by each call in the open round."""
        self._stale: set[int] = set()
        self._slots: dict[str, Html] = {}
        self._blocks = Blocks()
        self._settled: list[Html] = []
        self._thought = ""
        self.heard: list[Delta] = []
        """The deltas of an incomplete reply, in order."""
        self._new_text: list[str] = []
        self._new_thought: list[str] = []
        self._seq = 0
        self._streams = 0
        self._changed_at = _milliseconds_now()

    def take(self, item: AnyEvent | Delta) -> None:
        """Record an event or a delta."""
        if isinstance(item, Event):
            self._take_event(item)
            return
        if isinstance(item, ToolProgress):
            self._progress[item.call_id] = item.progress
            self.redraw_round()
            return
        if isinstance(item, ToolPrinted):
            self._printed[item.call_id] = item.text
            self.redraw_round()
            return
        self.heard.append(item)
        if isinstance(item, TextDelta):
            self._new_text.append(item.text)
        elif isinstance(item, ThinkingDelta):
            self._new_thought.append(item.text)

    @property
    def shows_steps(self) -> bool:
        """True if the run works in steps."""
        return self._steps is not None

    def redraw_round(self) -> None:
        """Note that the open round has changed, or a run nested in it, so that it is redrawn."""
        self._stale.add(len(self.run.rounds) - 1)

    def note_command(self, name: str, text: str = "") -> None:
        """Record a command that the run has not read yet, to be shown until its event arrives."""
        if name in ASKED:
            self._asked.append((name, redact(encodable(text))))  # in the form that its event will have

    def _take_event(self, event: AnyEvent) -> None:
        if self.run.waiting:  # this event may close questions of earlier rounds
            self._stale.update(question.round for question in self.run.questions if question.outcome == "open")
        self.run.apply(event)
        if isinstance(event, RoundStarted):
            self._drawn.keep(())
            self._progress.clear()
            self._printed.clear()
            self._stale.add(event.index - 1)  # its status may have changed
        elif isinstance(event, StreamEnd):
            self._end_stream()
        elif isinstance(event, RoundFinished):
            self._totals.add(self.run.rounds[-1])
        elif isinstance(event, ToolsOffered):
            self._form = self._form._replace(effects=effects_of(event.tools))
            if event.seq == 0:
                self._form = self._form._replace(settings=self.run.settings)
                self._steps = LiveSteps.of(self.run)
        elif isinstance(event, CommandReceived):
            asked = (event.command, event.text if event.command == "say" else "")
            if asked in self._asked:
                self._asked.remove(asked)
        elif isinstance(event, RunEnd):
            self._asked.clear()
        self._user_messages.take(event)
        if self._steps is not None:
            self._steps.take(event)
        if self._steps is None or not is_listed(event):
            self._also.take(event)
        self._elapsed.take(event)
        self._stale.update(self._findings.take(event, self.run))
        self._stale.add(len(self.run.rounds) - 1)

    def _end_stream(self) -> None:
        self._streams += 1
        self.heard.clear()
        self._blocks, self._settled, self._thought = Blocks(), [], ""
        self._new_text.clear()
        self._new_thought.clear()

    @property
    def is_streaming(self) -> bool:
        """True if part of an incomplete reply has arrived."""
        return bool(self._new_text or self._new_thought or self._settled or self._blocks.tail or self._thought)

    def frame(self, todos: tuple[Todo, ...] | None = None) -> Frame | None:
        """Return the changes since the last frame, or None if nothing has changed. ``todos``: the current list on its board."""
        slots = self._new_slots(todos)
        rounds = self._new_rounds()
        stream = self._new_stream()
        if not (slots or rounds or stream):
            return None
        self._seq += 1
        self._changed_at = _milliseconds_now()
        return {**self._frame(), "slots": slots, "rounds": rounds, "stream": stream}

    def whole(self, todos: tuple[Todo, ...] | None = None) -> Frame:
        """Return the complete picture, for a view that is new or has missed a frame."""
        self.frame(todos)  # brings the kept pieces up to date; its number becomes that of the whole
        rounds = [{"index": index, "keys": list(pieces), "html": dict(pieces)} for index, pieces in self._rounds.items()]
        stream = {
            "settled": list(self._settled),
            "tail": self._blocks.tail,
            "kind": self._blocks.tail_kind,
            "thought": self._thought,
        }
        return {**self._frame(), "whole": True, "slots": dict(self._slots), "rounds": rounds, "stream": stream}

    def _frame(self) -> Frame:
        return {
            "kind": "frame",
            "seq": self._seq,
            "now": _milliseconds_now(),
            "changed_at": self._changed_at,
            "say": chip(self.run, hears=self.is_streaming, position=self.nested.plan_position),
            "going": is_going_on(self.run),
            "heard": self._controls,
            "streaming": self._streams if self.is_streaming else None,
        }

    def _new_slots(self, todos: tuple[Todo, ...] | None) -> dict[str, Html]:
        run = self.run
        totals = self._totals.including(run.open_round)
        now = {
            "chip": chip_html(run, hears=self.is_streaming, position=self.nested.plan_position),
            "graph": self._steps.graph_html() if self._steps is not None else NOTHING,
            "meta": join_html(meta_html(run, totals, self._elapsed), model_html(run)),
            "controls": self._controls_html(),
            "todos": todos_html(run.todos if todos is None else todos, live=self._controls),
            "totals": totals_html(run, totals),
            "findings": self._findings.html,
            "trouble": join_html(*trouble_links(totals.wrong, run.id)),
            "notes": notes_html(run, () if run.rounds else self._also.during(0)),
            "asked": self._asked_html(),
            "now": self._now_html(),
        }
        changed = {name: html for name, html in now.items() if self._slots.get(name) != html}
        self._slots |= changed
        return changed

    def _controls_html(self) -> Html:
        if not is_going_on(self.run):
            return NOTHING
        if not self._controls:
            return tag("span", "hint", "To stop it: Kernel → Interrupt")
        last = next((name for name, _ in reversed(self._asked) if name != "say"), "")
        is_paused = self.run.status == "waiting_on_user" and not self.run.waiting
        when = " after this turn, or at its next question" if is_external(self.run) else ""
        hint = tag("span", "hint", f"Pausing …{when}") if last == "pause" and not is_paused else NOTHING
        to_resume = last == "pause" or (is_paused and not last)
        do, label = ("resume", "Resume") if to_resume else ("pause", "Pause")
        return join_html(hint, _button(do, label), _button("stop", "Stop"))

    def _now_html(self) -> Html:
        """Return the message field's second button, needed for external agents because they work in turns."""
        if not (self._controls and is_going_on(self.run) and is_external(self.run)):
            return NOTHING
        return tag("button", "button", "Now", type="submit", value="now", title="End its turn, so that it reads this at once")

    def _asked_html(self) -> Html:
        """Return the person's messages that the model has not read yet."""
        later = tag("span", "quiet", f" ({'its next prompt' if is_external(self.run) else 'read in the next round'})")
        user_messages = [words(text, MAX_ASKED) for name, text in self._asked if name == "say"]
        lines = [tag("div", "said", tag("b", "", "You: "), text, later) for text in user_messages]
        return tag("div", "round", tag("div", "number"), tag("div", "pieces", *lines)) if lines else NOTHING

    def _new_rounds(self) -> list[dict[str, Any]]:
        changed = []
        if self._steps is not None and self._stale and not self.run.rounds:
            changed += self._replace_pieces(0, self._steps.pieces(self._form, self._printed, self.nested))
        for index in sorted(self._stale):
            if 0 <= index < len(self.run.rounds):
                changed += self._replace_pieces(index, self._pieces(self.run.rounds[index]))
        self._stale.clear()
        return changed

    def _replace_pieces(self, index: int, pieces: Pieces) -> list[dict[str, Any]]:
        """Keep the pieces of a round (or, in place of the first round, the steps), and return the new ones in frame form."""
        before = self._rounds.get(index, {})
        self._rounds[index] = pieces
        new = {key: html for key, html in pieces.items() if before.get(key) != html}
        return [{"index": index, "keys": list(pieces), "html": new}] if new or list(before) != list(pieces) else []

    def _pieces(self, one: WorkflowRound) -> Pieces:
        questions = self.run.questions_of(one.index)
        user_messages, also = self._user_messages.during(one.index), self._also.during(one.index)
        if one.status != "running":
            return round_pieces(one, self._form, user_messages=user_messages, also=also, questions=questions)
        calls = {record.call.id for record in one.records}
        others = [question for question in questions if question.question.call_id not in calls]
        asked = by_call(questions)
        updates = routine_updates(one, asked)
        form = self._form
        made_of = (one.reply, *updates.values())
        todos = self._drawn.get("todos", made_of, lambda: todo_updates_html(one, updates, form))
        bare = replace(one, reply=None, records=(), compactions=(), retries=())
        when = round_pieces(bare, self._form, user_messages=user_messages, also=also, questions=others)
        last = {key: when.pop(key) for key in LAST if key in when}
        first: Pieces = {"todos": todos} if todos else {}
        return first | when | self._kept_pieces(one, asked, updates) | last

    def _kept_pieces(
        self, one: WorkflowRound, asked: Mapping[str, Sequence[AskedQuestion]], updates: Mapping[int, CallRecord]
    ) -> Pieces:
        """Return the pieces of an open round that may be numerous or long. Each is redrawn only when a source object is
        replaced.
        """
        form = self._form
        parts = {
            "compactions": self._drawn.get("compactions", (one.compactions,), lambda: compactions_html(one, form)),
            "retries": self._drawn.get("retries", (one.retries,), lambda: retries_html(one)),
            "thinking": self._drawn.get("thinking", (one.reply,), lambda: thinking_html(one, form)),
            "text": self._drawn.get("text", (one.reply,), lambda: text_html(one) if one.text.strip() else NOTHING),
        }
        for position, record in enumerate(one.records):
            if position in updates:
                continue
            questions = asked.get(record.call.id, ())
            progress = self._progress.get(record.call.id) if record.result is None else None
            printed = self._printed.get(record.call.id) if record.result is None else None
            shown = record
            if progress is not None or printed is not None:
                shown = replace(record, progress=progress, printed=printed or "")
            key = f"call:{position}"
            draw = partial(call_html, one, position, shown, form, questions)
            changes = sum(self.nested.changes(record.call.id) for _, record in with_inner((record,)))
            parts[key] = self._drawn.get(key, (record, progress, printed, changes, *questions), draw)
        return {key: html for key, html in parts.items() if html}

    def _new_stream(self) -> Frame:
        """Return the blocks that later text can no longer change, and the raw text that follows them."""
        frame: Frame = {}
        if self._new_thought:
            more = "".join(self._new_thought)
            self._thought += more
            self._new_thought.clear()
            frame["more_thought"] = more
        if self._new_text:
            more = "".join(self._new_text)
            self._new_text.clear()
            self._blocks.feed(more)
            if settled := self._blocks.settle():
                self._settled += settled
                frame |= {"add": settled, "tail": self._blocks.tail}
            else:
                frame["more"] = clean(more)
            frame["kind"] = self._blocks.tail_kind
        return frame


def _button(do: str, label: str) -> Html:
    return tag("button", "button", label, type="button", data_do=do, data_key=do)


def _milliseconds_now() -> int:
    return round(datetime.now(UTC).timestamp() * 1_000)
