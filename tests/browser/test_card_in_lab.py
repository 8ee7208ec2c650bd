"""The live card in a real JupyterLab: its content and its controls."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from measuring import Traffic, Work, busiest, model_ids, most_in_a_second, working
from property_settings import size
from waiting import wait_until

pytestmark = pytest.mark.browser
STORY = Path(__file__).with_name("story.py")
OLDER = pytest.mark.nightly("by day test_grounds clicks in those kernels")
SETUP = "%load_ext agentnb\nfrom story import *"
NAP = "model = Slow([ToolCall('nap', {'seconds': 600}), 'Up again.'])"
DOZE = "model = Slow([[write('Sleep', 'Wake'), ToolCall('doze', {'seconds': 600})], 'Up again.'])"
GO = "%%agent -m model -t nap doze wait hold load_penguins plot essay\nGo."


def opened(lab: Any, name: str, *cells: str, kernel: str | None = None) -> int:
    """Open a separate notebook with the story and these cells, run all but the last; return the index of that one."""
    shutil.copy(STORY, lab.folder)
    lab.open(lab.write(f"{name}.ipynb", [SETUP, *cells], kernel))
    lab.run_above(len(cells))
    return len(cells)


def shared(lab: Any, *cells: str) -> int:
    """Do the same in the shared notebook."""
    shutil.copy(STORY, lab.folder)
    lab.share([SETUP, *cells])
    lab.run_above(len(cells))
    return len(cells)


def card(lab: Any, index: int) -> Any:
    shown_card = lab.cell(index).locator(".agentnb-card")
    shown_card.wait_for()
    return shown_card


def chip(lab: Any, index: int, text: str) -> None:
    """Wait until the live card says this."""
    card(lab, index).locator("[data-slot=chip]", has_text=text).wait_for()


def ended(lab: Any, index: int, text: str) -> None:
    """Wait until the saved form appears and says this."""
    lab.cell(index).locator(".agentnb-run .agentnb-chip", has_text=text).wait_for()


def nothing_is_left(lab: Any) -> None:
    lab.wait_idle()
    lab.wait_for_value("len(__import__('ipywidgets').widget._instances)", "0")
    assert lab.complaints() == []


@pytest.mark.req("R3.37")
@pytest.mark.parametrize("version", [pytest.param("7.3.0", marks=OLDER), pytest.param("7.4.0", marks=OLDER), "newest"])
def test_stop_ends_a_sync_tool_in_a_blocked_cell(lab: Any, kernels: Any, version: str) -> None:
    index = opened(lab, f"stop-{version}", NAP, GO, kernel=kernels(version))
    lab.start(index)
    chip(lab, index, "Running nap")
    card(lab, index).get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    lab.wait_done(index)
    assert lab.value("run.rounds[0].results[0].error_code, HELD") == "('cancelled', ['nap'])"
    wait_until(lambda: "Stopped by you" in lab.output(index).inner_text())
    closed = "KeyboardInterrupt: the run was stopped and its log closed. Continue with %%agent --continue"
    assert lab.errors() == [f"{closed} -t {GO.partition('-t ')[2].splitlines()[0]} -m model"]
    nothing_is_left(lab)


def test_stop_ends_a_model_that_is_still_replying(lab: Any) -> None:
    index = shared(lab, "model = Slow([['Hm.', 600]])", GO)
    lab.start(index)
    card(lab, index).get_by_text("Hm.").wait_for()
    card(lab, index).get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    lab.wait_done(index)
    assert lab.value("run.status, run.text") == "('cancelled', 'Hm. ')"
    nothing_is_left(lab)


def test_run_can_be_paused_messaged_and_resumed(lab: Any) -> None:
    model = "model = Slow([ToolCall('wait', {'what': 'pause-asked'}), [Until('pause-seen'), 'I heard you.']])"
    index = shared(lab, model, GO)
    lab.start(index)
    chip(lab, index, "Running wait")
    shown = card(lab, index)
    shown.get_by_role("button", name="Pause").click()
    shown.locator("[data-slot=controls]", has_text="Pausing").wait_for()
    shown.get_by_role("button", name="Resume").click()
    shown.get_by_role("button", name="Pause").click()
    shown.locator("[data-slot=controls]", has_text="Pausing").wait_for()
    box = shown.get_by_label("Say something to the agent")
    box.fill("Look at <b>Gentoo</b>")
    box.press("Enter")
    shown.locator("[data-slot=asked]", has_text="You: Look at <b>Gentoo</b> (read in the next round)").wait_for()
    wait_until(lambda: box.input_value() == "")
    lab.allow("pause-asked")
    chip(lab, index, "Paused")
    shown.locator("[data-slot=asked]:empty").wait_for(state="attached")
    wait_until(lambda: shown.locator("[data-piece=said]").inner_text() == "You: Look at <b>Gentoo</b>")
    wait_until(lambda: "Pausing" not in shown.inner_text())
    shown.get_by_role("button", name="Resume").click()
    chip(lab, index, "Thinking")
    lab.allow("pause-seen")
    ended(lab, index, "Done")
    lab.wait_done(index)
    assert lab.value("[m.text for m in run.messages if m.role == 'user'][-1]") == "'Look at <b>Gentoo</b>'"
    nothing_is_left(lab)


def test_todos_can_be_edited_while_the_cell_runs(lab: Any) -> None:
    index = shared(lab, DOZE, GO)
    lab.start(index)
    chip(lab, index, "Running doze")
    shown = card(lab, index)
    shown.locator("[data-todo='1'] [data-do=tick]").click()
    shown.get_by_text("Todos 1 of 2").wait_for()
    shown.get_by_label("Add a todo").fill("Yawn")
    shown.get_by_label("Add a todo").press("Enter")
    shown.locator("[data-todo='3']").wait_for()
    shown.locator("[data-todo='3']").hover()
    shown.locator("[data-todo='3'] [data-do=up]").click()
    shown.locator("[data-todo='3'] + [data-todo='2']").wait_for()
    shown.locator("[data-todo='2'] [data-do=tick]").focus()
    lab.page.keyboard.press("Alt+ArrowUp")
    shown.locator("[data-todo='2'] + [data-todo='3']").wait_for()
    shown.locator("[data-todo='1']").drag_to(shown.locator("[data-todo='3']"), target_position={"x": 60, "y": 15})
    shown.locator("[data-todo='3'] + [data-todo='1']").wait_for()
    shown.locator("[data-todo='2']").hover()
    shown.locator("[data-todo='2'] [data-do=remove]").click()
    shown.locator("[data-todo='2']").wait_for(state="detached")
    shown.get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    lab.wait_done(index)
    assert (
        lab.value("[(t.id, t.title, t.status) for t in run.todos]") == "[(3, 'Yawn', 'not-started'), (1, 'Sleep', 'completed')]"
    )
    nothing_is_left(lab)


def test_model_input_of_a_round_is_shown_while_running(lab: Any) -> None:
    index = shared(lab, "model = Slow([ToolCall('load_penguins', {'path': 'x'}), ToolCall('nap', {'seconds': 600})])", GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    rounds = card(lab, index).locator(".agentnb-round")
    wait_until(lambda: rounds.nth(1).locator(".agentnb-saw > summary").is_hidden())
    card(lab, index).get_by_role("button", name="Show guidance").click()
    rounds.nth(1).locator(".agentnb-saw > summary").click()
    rounds.nth(1).get_by_text("ephemeral").first.wait_for()
    seen = rounds.nth(1).locator(".agentnb-saw")
    for words in ("<system-reminder>", "Go.", "Gentoo"):
        wait_until(lambda: words in seen.text_content())
    card(lab, index).get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    # Folds that the reader opened are open in the saved form.
    wait_until(lambda: lab.output(index).locator(".agentnb-round").nth(1).locator(".agentnb-saw[open]").count() == 1)
    wait_until(lambda: lab.output(index).locator(".agentnb-round").nth(0).locator(".agentnb-saw[open]").count() == 0)
    nothing_is_left(lab)


def test_tables_pictures_and_long_results_are_displayed(lab: Any) -> None:
    calls = "[ToolCall('load_penguins', {'path': 'x'}), ToolCall('plot', {'kind': 'bar'}), ToolCall('essay', {'length': 3000})]"
    index = shared(lab, f"model = Slow([{calls}, ToolCall('nap', {{'seconds': 600}})])", GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    shown = card(lab, index)
    wait_until(lambda: shown.locator("table td", has_text="5076").count() == 1)
    wait_until(lambda: shown.locator("img[src^='data:image/png']").evaluate("image => image.naturalWidth") == 500)
    tool = shown.locator(".agentnb-tool", has_text="essay")
    tool.locator("summary").first.click()
    wait_until(lambda: "line 2999" in tool.inner_text() and "line 1500" not in tool.inner_text())
    tool.get_by_role("button", name="Show all").click()
    tool.get_by_text("line 1500").wait_for()
    shown.get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    nothing_is_left(lab)


def test_kernel_interrupt_stops_the_run_and_its_card(lab: Any) -> None:
    index = shared(lab, NAP, GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    lab.interrupt()
    ended(lab, index, "Stopped by you")
    lab.cell(index).get_by_text("the run was stopped and its log closed").wait_for()
    nothing_is_left(lab)


def test_failed_run_is_labelled_and_folded(lab: Any) -> None:
    index = shared(lab, "model = Slow([ToolCall('load_penguins', {'path': 'x'}), RuntimeError('no <i>luck</i>')])", GO)
    lab.run(index)
    ended(lab, index, "Failed")
    wait_until(lambda: lab.output(index).get_by_text("no <i>luck</i>").count() >= 1)
    wait_until(lambda: lab.output(index).locator("details[open]").count() == 0)
    wait_until(lambda: "%replay" not in lab.output(index).inner_text())  # no guidance helps where the model itself failed
    nothing_is_left(lab)


def test_second_view_shows_the_complete_run_until_the_end(lab: Any) -> None:
    index = shared(lab, "model = Slow([['First.', ToolCall('nap', {'seconds': 600})]])", GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    view = lab.second_view(index)
    view.get_by_text("First.").wait_for()
    view.get_by_role("button", name="Stop").click()
    view.locator(".agentnb-run .agentnb-chip", has_text="Stopped by you").wait_for()
    ended(lab, index, "Stopped by you")
    nothing_is_left(lab)


@pytest.mark.nightly("by day the newest ipykernel is interrupted")
def test_old_ipykernel_card_says_how_to_interrupt(lab: Any, kernels: Any) -> None:
    index = opened(lab, "six", NAP, GO, kernel=kernels("6.31.0"))
    lab.start(index)
    chip(lab, index, "Running nap")
    shown = card(lab, index)
    wait_until(lambda: "Kernel → Interrupt" in shown.inner_text())
    wait_until(lambda: shown.get_by_role("button", name="Stop").count() == 0)
    wait_until(lambda: shown.get_by_label("Say something").is_hidden())
    lab.interrupt()
    ended(lab, index, "Stopped by you")


@pytest.mark.nightly("by day test_agent_cell counts the messages of a long reply")
@pytest.mark.req("R0.11")
def test_thousands_of_tokens_arrive_in_few_messages_without_stutter(fresh_lab: Any) -> None:
    lab = fresh_lab
    text = " ".join(f"token{n}" + (".\n\n" if n % 40 == 39 else "") for n in range(size(1_500, nightly=5_000)))
    traffic = Traffic(lab.page)
    model = "model = Slow([[text, ToolCall('nap', {'seconds': 600})]], pause=0.0006)"
    index = opened(lab, "tokens", f"text = {json.dumps(text)}\n{model}", GO)

    def attempt() -> Work:
        lab.run(index - 1)
        with working(lab.page) as work:
            lab.start(index)
            chip(lab, index, "Running nap")
        models = model_ids(lab.outputs(index))
        wait_until(lambda: card(lab, index).locator(".agentnb-text").inner_text().split() == text.split())
        customs = [message for message in traffic.comm(models) if message.content["data"]["method"] == "custom"]
        assert len(customs) > 10
        assert most_in_a_second(customs) <= 40
        card(lab, index).get_by_role("button", name="Stop").click()
        ended(lab, index, "Stopped by you")
        lab.wait_done(index)
        return work

    assert busiest(attempt, 50) <= 50


ASK = "%%agent -m model -t ask_person\nGo."
QUESTION = "Which <b>species</b>?"
STATUS = "() => [...document.querySelectorAll('[role=status].agentnb-unseen')].map(one => one.textContent).join('|')"


def asking(lab: Any, name: str, **more: Any) -> tuple[int, Any]:
    """Return a blocked cell whose run has just asked, and its card."""
    call = f"ToolCall('ask_person', { ({'question': QUESTION} | more)!r})"
    index = shared(lab, f"from agentnb import ask_person\nmodel = Slow([{call}, [Until('{name}-heard'), 'I know now.']])", ASK)
    lab.start(index)
    chip(lab, index, "Waiting for you")
    shown = card(lab, index)
    shown.locator(".agentnb-question-text", has_text=QUESTION).wait_for()
    wait_until(lambda: f"Waiting for you: {QUESTION}" in lab.page.evaluate(STATUS))
    return index, shown


def went_on(lab: Any, name: str, index: int, told: str, shown: str) -> None:
    """Check that the run got ``told`` as the tool result, the card shows ``shown``, and the run ended."""
    chip(lab, index, "Thinking")
    wait_until(lambda: card(lab, index).locator(".agentnb-question").count() == 0)
    closed = lab.cell(index).locator(".agentnb-question-closed", has_text=QUESTION)
    wait_until(lambda: closed.inner_text().splitlines()[-1] == shown)
    lab.allow(f"{name}-heard")
    ended(lab, index, "Done")
    lab.wait_done(index)
    wait_until(lambda: shown in closed.text_content())
    assert told in lab.value("run.rounds[0].results[0].text")
    nothing_is_left(lab)


@pytest.mark.req("KX.5")
def test_question_with_choices_can_be_answered_with_a_button(lab: Any) -> None:
    index, shown = asking(lab, "choices", options=["Adelie", "Gentoo"])
    shown.get_by_role("button", name="Gentoo").click()
    went_on(lab, "choices", index, "Gentoo", "You: Gentoo")


@pytest.mark.req("KX.5")
def test_question_can_be_answered_with_text(lab: Any) -> None:
    index, shown = asking(lab, "in-words")
    field = shown.get_by_label("Your answer")
    field.fill("The <i>third</i>")
    field.press("Enter")
    went_on(lab, "in-words", index, "The <i>third</i>", "You: The <i>third</i>")


SHELL = """
def shell(command: str) -> str:
    'Runs a command.'
    return f'{len(command):,} characters were run'
command = 'ls' + ' ' * 320 + '; echo <b>bold</b>\\n' + 'echo \\u202etxt\\x1b[2J  on\\n' * 2000 + 'rm -rf /'
model = Slow([ToolCall('shell', {'command': command}), 'Done.'])
"""


def test_long_call_is_opened_before_it_is_approved(lab: Any) -> None:
    index = shared(lab, SHELL, "%%agent -m model -t shell --approve ask\nGo.")
    lab.start(index)
    chip(lab, index, "Waiting for you")
    shown = card(lab, index)
    approve = shown.get_by_role("button", name="approve")
    approve.get_by_text("not shown)").wait_for()
    question = shown.locator(".agentnb-question")
    question.get_by_text("⟨320 spaces⟩; echo <b>bold</b>").wait_for()
    question.locator("summary", has_text="Show all").click()
    question.get_by_text("rm -rf /").wait_for()
    approve.get_by_text("not shown)").wait_for(state="hidden")
    approve.click()
    ended(lab, index, "Done")
    lab.wait_done(index)
    assert "36,349 characters were run" in lab.value("run.rounds[0].results[0].text")
    nothing_is_left(lab)


COUNT = """
from agentnb import tool
from agentnb.tools.tool import ToolContext
@tool(blocking=True)
async def count(context: ToolContext) -> int:
    "Count."
    return await context.ask("How many?", {"type": "integer", "minimum": 1, "multipleOf": 3})
model = Slow([ToolCall("count", {}), "I know now."])
"""


@pytest.mark.req("KX.5")
def test_refused_answer_stays_in_its_field_with_the_reason(lab: Any) -> None:
    index = shared(lab, COUNT, "%%agent -m model -t count\nGo.")
    lab.start(index)
    field = card(lab, index).get_by_label("Your answer, a whole number")
    error = card(lab, index).locator(".agentnb-question .agentnb-field-error")
    field.press("-")
    field.press("Enter")  # the browser refuses it in its own words
    error.filter(has_text=re.compile(".")).wait_for()
    field.fill("4")
    field.press("Enter")
    error.filter(has_text="Please enter a whole number (4 is not a multiple of 3)").wait_for()
    wait_until(lambda: field.input_value() == "4" and field.get_attribute("aria-invalid") is not None)
    field.fill("6")
    field.press("Enter")
    ended(lab, index, "Done")
    lab.wait_done(index)
    assert lab.value("run.rounds[0].results[0].text") == "'6'"
    nothing_is_left(lab)


@pytest.mark.req("KX.5")
def test_question_can_be_declined(lab: Any) -> None:
    index, shown = asking(lab, "declined", options=["Adelie", "Gentoo"])
    shown.get_by_role("button", name="Decline").click()
    went_on(lab, "declined", index, "declined to answer", "You declined to answer")


GATED = """
from agentnb.policies.gates import Ask
def careful(call, run):
    return Ask(f"May {call.name} run?") if call.name == "wait" else None
model = Slow([ToolCall('wait', {'what': 'later'}), 'Up again.'])
"""


@pytest.mark.req("KX.5")
def test_postponed_gate_question_is_saved_with_the_answer_command(lab: Any) -> None:
    index = shared(lab, GATED, "%%agent -m model -t wait --gate careful\nGo.")
    lab.start(index)
    chip(lab, index, "Waiting for you")
    card(lab, index).get_by_role("button", name="Later").click()
    ended(lab, index, "Waiting for you")
    lab.wait_done(index)
    saved = lab.cell(index).locator(".agentnb-run")
    wait_until(lambda: "May wait run?" in saved.inner_text() and saved.locator("[data-do]").count() == 0)
    wait_until(lambda: f"%agent answer {lab.value('run.id')[1:-1][-8:]} -m model TEXT" in saved.inner_text())
    nothing_is_left(lab)


ASK_TWICE = """
from agentnb import ask_person
first = ToolCall("ask_person", {"question": "First?", "options": ["Adelie", "Gentoo"]})
loads = [[f"{n}. " + "words " * 60, ToolCall("load_penguins", {"path": str(n)})] for n in range(3)]
drawn = [["A figure.", ToolCall("plot", {"kind": "bar"})], ["words " * 60, ToolCall("doze", {"seconds": 0})]]
model = Slow([*loads, *drawn, first, ["- line\\n" * 30, ToolCall("ask_person", {"question": "Second?"})], "I know now."])
"""
IN_SIGHT = """([question, list]) => {
    const [inner, outer] = [question, list].map(one => one.getBoundingClientRect());
    return inner.top >= outer.top && inner.bottom <= outer.bottom;
}"""


def in_sight(lab: Any, shown: Any) -> None:
    """Wait until the open question is visible in the list of rounds."""
    parts = [shown.locator(one).element_handle() for one in (".agentnb-question", "[data-rounds]")]
    lab.page.wait_for_function(IN_SIGHT, arg=parts)


def test_new_question_is_scrolled_into_view(lab: Any) -> None:
    index = shared(lab, ASK_TWICE, ASK.replace("ask_person", "ask_person load_penguins plot doze"))
    lab.start(index)
    shown = card(lab, index)
    first = shown.get_by_role("button", name="Gentoo")
    first.wait_for()
    in_sight(lab, shown)
    first.click()
    field = shown.get_by_label("Your answer")
    field.wait_for()
    in_sight(lab, shown)
    field.fill("It is clear.")
    field.press("Enter")
    ended(lab, index, "Done")
    wait_until(lambda: lab.cell(index).locator(".agentnb-question-closed").count() == 2)


THOUGHT = """
from agentnb.core.messages import Thinking
model = Slow([[Thinking("I think. " * 20), Until("thought-opened"), "So.", ToolCall("nap", {"seconds": 600})]], pause=0.05)
"""


def test_opened_thinking_stays_open_when_it_is_complete(lab: Any) -> None:
    index = shared(lab, THOUGHT, GO)
    lab.start(index)
    streaming = card(lab, index).locator("[data-stream] [data-fold='thinking:0']")
    streaming.locator("summary").click()
    lab.second_view(index).locator(".agentnb-card", has_text="thinking").wait_for()  # so all views are sent the whole
    wait_until(lambda: streaming.get_attribute("open") is not None)
    streaming.locator("summary").focus()
    lab.allow("thought-opened")
    chip(lab, index, "Running nap")
    fold = card(lab, index).locator("[data-piece=thinking] [data-fold='thinking:0']")
    wait_until(lambda: fold.get_attribute("open") is not None)
    wait_until(lambda: lab.page.evaluate("() => document.activeElement.parentElement.dataset.fold") == "thinking:0")
    card(lab, index).get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    nothing_is_left(lab)


def test_message_sent_now_ends_an_external_agent_turn(lab: Any) -> None:
    agent = Path(__file__).parents[1] / "acp" / "fake_agent.py"
    added = f"%agent acp add waiting {shlex.join((sys.executable, str(agent)))}"
    index = shared(lab, added, "%%agent --acp waiting --approve auto\nsleep")
    lab.start(index)
    shown = card(lab, index)
    shown.get_by_text("Sleeping").wait_for()
    shown.get_by_label("Say something to the agent").fill("mode")
    shown.get_by_role("button", name="Now", exact=True).click()
    ended(lab, index, "Ended, unchecked")
    lab.wait_done(index)
    assert lab.value("run.text") == "'auto'"
    nothing_is_left(lab)
