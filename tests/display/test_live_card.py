"""The frames of a live card build the same picture as the whole card."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import RunBuilder, a_round, called
from scripted_runs import add

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent, CommandReceived, Delta, Event, ToolStarted
from agentnb.core.log.work_events import ToolsChanged
from agentnb.core.messages import ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.todos import Todo
from agentnb.display.card import live_card
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.form import Form, effects_of
from agentnb.display.parts.finding_links import LiveFindings
from agentnb.display.parts.round_pieces import round_pieces
from agentnb.display.parts.tool_card import ICONS
from agentnb.display.texts.user_messages import UserMessages
from agentnb.models import ScriptedModel


class Browser:
    """Applies frames as the browser module does."""

    def __init__(self) -> None:
        self.seq = -1
        self.slots: dict[str, str] = {}
        self.rounds: dict[int, dict[str, str]] = {}
        self.streaming: int | None = None
        self.settled: list[str] = []
        self.tail = self.thought = ""

    def take(self, frame: dict[str, Any]) -> None:
        if frame.get("whole"):
            self.__init__()  # type: ignore[misc]
        else:
            assert frame["seq"] == self.seq + 1
        self.seq = frame["seq"]
        self.slots |= frame["slots"]
        for round_ in frame["rounds"]:
            known = self.rounds.get(round_["index"], {})
            self.rounds[round_["index"]] = {key: round_["html"].get(key) or known[key] for key in round_["keys"]}
        self._stream(frame)

    def _stream(self, frame: dict[str, Any]) -> None:
        stream, number = frame["stream"], frame["streaming"]
        if number is None or number != self.streaming:
            self.settled, self.tail, self.thought = [], "", ""
        self.streaming = number
        if number is not None:
            self.settled = self.settled + stream.get("add", stream.get("settled", []))
            self.tail = stream.get("tail", self.tail + stream.get("more", ""))
            self.thought += stream.get("more_thought", stream.get("thought", ""))

    def picture(self) -> tuple[Any, ...]:
        return self.slots, self.rounds, self.settled, self.tail, self.thought


def items_of(*replies: Any) -> list[AnyEvent | Delta]:
    items: list[AnyEvent | Delta] = []
    Agent(ScriptedModel(replies), tools=[add]).run_sync("Go.", watch=items.append)
    return items


STORY = items_of(
    ["First I add.\n\nThen I look.", ToolCall("add", {"a": 1}), ToolCall("add", {"a": "x"})],
    "```python\nx = 1\n```\nand on",
    [ToolCall("add", {"a": 1}), ToolCall("add", {"a": 1})],
    "It is **3**.\n\n- one\n- two\n\nDone.",
)


PLACES = st.integers(0, len(STORY) - 1)


@examples(200)
@given(st.sets(PLACES), st.sets(PLACES, max_size=3), PLACES)
def test_browser_shows_the_complete_card_despite_lost_frames(sent: set[int], lost: set[int], end: int) -> None:
    card, browser = LiveCard(), Browser()
    is_lost = True
    for place, item in enumerate(STORY[:end]):
        card.take(item)
        if place in lost:
            card.frame()
            is_lost = True
        elif place in sent:
            frame = card.whole() if is_lost else card.frame()
            is_lost = False
            if frame is not None:
                browser.take(frame)
    last = card.whole() if is_lost else card.frame()
    if last is not None:
        browser.take(last)
    fresh, other = LiveCard(), Browser()
    for item in STORY[:end]:
        fresh.take(item)
    other.take(fresh.whole())
    assert browser.picture() == other.picture()


def test_frames_alone_rebuild_the_complete_live_card() -> None:
    card, browser = LiveCard(), Browser()
    browser.take(card.whole())
    for item in STORY:
        card.take(item)
        if (frame := card.frame()) is not None:
            browser.take(frame)
        known = Browser()
        pictured = browser.picture()
        known.take(card.whole())
        assert pictured == known.picture()
        browser.take(card.whole())


def test_frame_contains_only_changes() -> None:
    card = LiveCard()
    frames = []
    for item in STORY:
        card.take(item)
        frames.append(card.frame())
    assert card.frame() is None
    told = [(round_["index"], key) for frame in frames if frame for round_ in frame["rounds"] for key in round_["html"]]
    assert told.count((0, "text")) == 1
    assert told.count((0, "call:0")) == 2  # running, then done


def test_frame_size_does_not_grow_with_earlier_rounds() -> None:
    card, sizes = LiveCard(), dict.fromkeys(range(61), 0)
    for item in items_of(
        *[[f"Now number {number + 10}.", ToolCall("add", {"a": number + 10})] for number in range(60)], "Done."
    ):
        card.take(item)
        frame = card.frame()
        if frame is not None and frame["rounds"]:
            sizes[max(part["index"] for part in frame["rounds"])] += len(json.dumps(frame))
    early, late = (sum(sizes[number] for number in numbers) for numbers in (range(10, 20), range(45, 55)))
    assert late <= 1.1 * early


@pytest.mark.req("R0.73")
def test_call_is_shown_as_running_before_its_result() -> None:
    card = LiveCard()
    seen = []
    for item in STORY:
        card.take(item)
        for round_ in (card.frame() or {"rounds": []})["rounds"]:
            seen += [html for key, html in round_["html"].items() if key == "call:0"]
    assert "running" in seen[0] and "add" in seen[0]
    assert "ok" in seen[1]


@pytest.mark.req("R3.13", "R3.37")
def test_chip_shows_each_change_of_state() -> None:
    card, said = LiveCard(), []
    for item in STORY:
        card.take(item)
        if (frame := card.frame()) is not None and (not said or said[-1] != frame["say"]):
            said.append(frame["say"])
    assert said[:3] == ["Starting", "Thinking", "Running add"]
    assert said[-1].startswith("Stopped") or said[-1] == "Done, 1 call failed"


def test_board_todos_are_shown_before_the_run_reads_them() -> None:
    card = LiveCard()
    for item in STORY[:3]:
        card.take(item)
    frame = card.frame((Todo(1, "Look at <b>this</b>"),))
    assert frame is not None and "Look at &lt;b&gt;this" in frame["slots"]["todos"]


def test_controls_are_offered_only_where_clicks_reach_the_kernel() -> None:
    heard, unheard = LiveCard(), LiveCard(controls=False)
    for card in (heard, unheard):
        card.take(STORY[0])
    assert 'data-do="stop"' in heard.whole()["slots"]["controls"]
    assert "Interrupt" in unheard.whole()["slots"]["controls"] and "data-do" not in unheard.whole()["slots"]["controls"]


def in_the_middle(*, upto: type[Event] = ToolStarted) -> tuple[LiveCard, int]:
    """Return a card just after its first event of this kind, and the next position."""
    card = LiveCard()
    place = next(place for place, item in enumerate(STORY) if isinstance(item, upto)) + 1
    for item in STORY[:place]:
        card.take(item)
    card.frame()
    return card, place


def commanded(card: LiveCard, command: Any, text: str = "") -> None:
    last = card.run.events[-1]
    card.take(CommandReceived(run_id=last.run_id, seq=last.seq + 1, at=last.at, command=command, text=text))


def slot(card: LiveCard, name: str) -> str:
    return str(card.whole()["slots"][name])


def test_requested_pause_is_shown_and_can_be_cancelled() -> None:
    card, _ = in_the_middle()
    card.note_command("pause")
    frame = card.frame()
    assert frame is not None
    controls = frame["slots"]["controls"]
    assert "Pausing" in controls and 'data-do="resume"' in controls and 'data-do="pause"' not in controls
    commanded(card, "pause")
    assert "Pausing" not in slot(card, "controls") and 'data-do="resume"' in slot(card, "controls")
    card.note_command("resume")
    assert 'data-do="pause"' in slot(card, "controls")
    commanded(card, "resume")
    assert 'data-do="pause"' in slot(card, "controls") and "Pausing" not in slot(card, "controls")


def test_pause_cancelled_before_it_took_effect_disappears() -> None:
    card, _ = in_the_middle()
    card.note_command("pause")
    card.note_command("resume")
    assert "Pausing" not in slot(card, "controls") and 'data-do="pause"' in slot(card, "controls")


def test_sent_message_stays_at_the_end_until_it_is_read() -> None:
    card, _ = in_the_middle()
    card.note_command("say", "Look at <b>Gentoo</b>")
    card.note_command("say", "and hurry")
    assert "You: </b>Look at &lt;b&gt;Gentoo&lt;/b&gt;" in slot(card, "asked")
    assert slot(card, "asked").count("read in the next round") == 2
    commanded(card, "say", "Look at <b>Gentoo</b>")
    assert "Gentoo" not in slot(card, "asked") and "and hurry" in slot(card, "asked")
    said = [html for round_ in card.whole()["rounds"] for html in round_["html"].values() if "Gentoo" in html]
    assert len(said) == 1 and "read in the next round" not in said[0]
    commanded(card, "say", "and hurry")
    assert slot(card, "asked") == ""


def test_commands_from_another_cell_keep_the_card_complete() -> None:
    card, _ = in_the_middle()
    card.note_command("say", "of the card")
    commanded(card, "say", "of another cell")
    assert "of the card" in slot(card, "asked")


def test_streamed_deltas_are_kept_until_the_reply_is_complete() -> None:
    card = LiveCard()
    first = next(place for place, item in enumerate(STORY) if not isinstance(item, Event))
    for item in STORY[: first + 1]:
        card.take(item)
        card.frame()
    assert card.heard == [STORY[first]]
    in_between, _ = in_the_middle()
    assert in_between.heard == []


MANY = items_of(["Many.", *[ToolCall("add", {"a": number}) for number in range(60)]], "Done.")


def test_call_is_rerendered_only_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    texts: list[int] = []
    call_html, text_html = live_card.call_html, live_card.text_html

    def counted_call(one: Any, place: int, *rest: Any) -> Any:
        drawn.append(place)
        return call_html(one, place, *rest)

    def counted_text(one: Any) -> Any:
        texts.append(one.index)
        return text_html(one)

    monkeypatch.setattr(live_card, "call_html", counted_call)
    monkeypatch.setattr(live_card, "text_html", counted_text)
    card = LiveCard()
    for item in MANY:
        card.take(item)
        card.frame()
    assert {drawn.count(place) for place in range(60)} == {2}  # as it starts, and with its result
    assert texts.count(0) == 1


AGAIN = items_of(*[[ToolCall("add", {"a": 1})] for _ in range(4)], "Done.")


@pytest.mark.parametrize("story", [STORY, MANY, AGAIN])
def test_cached_html_equals_freshly_rendered_html(story: list[AnyEvent | Delta]) -> None:
    card, events, findings = LiveCard(), [], LiveFindings()
    for item in story:
        card.take(item)
        if not isinstance(item, Event):
            continue
        events.append(item)
        findings.take(item, card.run)
        form = Form(live=True, effects=effects_of(card.run.tools), marks=findings.marks)
        shown = {round_["index"]: (round_["keys"], round_["html"]) for round_ in card.whole()["rounds"]}
        for round_ in card.run.rounds:
            anew = round_pieces(round_, form, user_messages=UserMessages(events).during(round_.index))
            assert shown[round_.index] == (list(anew), anew)


def test_effects_of_tools_added_later_are_shown() -> None:
    story = RunBuilder().add(ToolsChanged, tools=(ToolSpec("send", effects=("network",)),), reason="mcp_servers")
    card = LiveCard()
    for event in story.extend(*a_round(0, called("send"))).run.events:
        card.take(event)
    shown = "".join(card.whole()["rounds"][0]["html"].values())
    assert ICONS["network"] in shown
    assert shown.count(ICONS["network"]) == run_html(story.run).count(ICONS["network"])
