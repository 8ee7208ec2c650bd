"""The live card is calm: in long runs, for readers elsewhere, for the keyboard, in every theme and width."""

from __future__ import annotations

from typing import Any

import pytest
from contrast import COLOURS, faint
from measuring import Work, busiest, watching, working
from page_scripts import CURRENT, KERNEL
from property_settings import size
from test_card_in_lab import GO, card, chip, ended, opened, shared
from waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.nightly("by day test_card_in_lab and the tests of the kernel's part of a card")]
MANY = size(60, nightly=300)
NAP = "ToolCall('nap', {'seconds': 600})"
LONG = f"""
import random
chance = random.Random(5)
def words(count):
    return " ".join("".join(chance.choices("aeioubdfgklmnprst", k=6)) for _ in range(count))
def call(n):
    return [ToolCall("load_penguins", {{"path": words(1)}}), ToolCall("essay", {{"length": 20 + n % 7}})][n % 2]
model = Slow([[write("Load", "Look", "Tell")], *[[0.015, words(140), call(n)] for n in range({MANY - 2})], {NAP}])
"""
GO_ON = GO.replace("%%agent", f"%%agent --max-rounds {MANY + 100} -p minimal")


def stop(lab: Any, index: int) -> None:
    card(lab, index).get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    lab.wait_done(index)


def rounds(lab: Any, index: int) -> Any:
    return card(lab, index).locator("[data-rounds]")


def scrolling(lab: Any, index: int) -> Work:
    """Measure the page while the reader scrolls up through the rounds."""
    box = rounds(lab, index).bounding_box()
    lab.page.mouse.move(box["x"] + 200, box["y"] + 200)
    with working(lab.page) as work:
        for _ in range(60):
            lab.page.mouse.wheel(0, -1_000)
            lab.page.wait_for_timeout(16)
    return work


COUNT_MADE = """() => {
    let made = 0;
    const marks = window.__made = {};
    const size = node => 1 + (node.querySelectorAll?.('*').length ?? 0);
    window.__counting?.disconnect();
    window.__counting = new MutationObserver(list => {
        for (const one of list) {
            const element = one.target.closest ? one.target : one.target.parentElement;
            if (!element?.closest('.agentnb-card')) continue;
            made += 1 + [...one.addedNodes].reduce((sum, node) => sum + size(node), 0);
            for (const node of one.addedNodes) {
                const round = node.dataset?.round;
                if (round !== undefined) marks[round] ??= made;
            }
        }
    });
    window.__counting.observe(document.body, {subtree: true, childList: true, characterData: true, attributes: true});
}"""


def made(lab: Any, first: int, after: int) -> int:
    """Count the elements that the page created or changed between the first and last of these rounds."""
    marks = {int(round_): count for round_, count in lab.page.evaluate("() => window.__made").items()}
    return int(marks[after] - marks[first])


def test_page_stays_smooth_during_a_long_run(fresh_lab: Any) -> None:
    lab = fresh_lab
    index = opened(lab, "many", LONG, GO_ON)
    grown: list[float] = []

    def attempt() -> Work:
        lab.run(1)  # the same story again
        lab.page.evaluate(COUNT_MADE)
        with working(lab.page) as work:
            lab.start(index)
            chip(lab, index, "Running nap")
            wait_for_round(lab, MANY - 1)
        span = MANY // 4
        grown.append(made(lab, MANY - 10 - span, MANY - 10) / made(lab, 10, 10 + span))
        wait_until(lambda: rounds(lab, index).locator(".agentnb-round").count() == MANY)
        assert busiest(lambda: scrolling(lab, index), 100) <= 100
        stop(lab, index)
        return work

    assert busiest(attempt, 100) <= 100
    assert max(grown) <= 1.3


# What the reader looks at

CALM = (
    LONG
    + """
def shown(n):
    return call(n) if n % 3 else ToolCall("doze", {"seconds": 0.3})  # long enough that the state of the run is seen to change
quick = [[words(140), call(n)] for n in range(20)]
model = Slow([[write("Load", "Look", "Tell")], *quick, *[[words(35), shown(n)] for n in range(20, 40)], {NAP}])
whole_speed = model.stream
async def stream(request):
    model.pause = 0 if len(model.requests) < 21 else 1 / 60
    async for item in whole_speed(request):
        yield item
model.stream = stream
""".replace("{NAP}", NAP)
)
KEEP_LOOKING = """list => {
    const edge = list.getBoundingClientRect().top;
    const round = [...list.querySelectorAll('.agentnb-round')].find(one => one.getBoundingClientRect().bottom > edge);
    const seen = window.__seen = {tops: new Set(), scrolls: new Set(), on: true};
    const look = () => {
        seen.tops.add(round.getBoundingClientRect().top);
        seen.scrolls.add(list.scrollTop);
        if (seen.on) requestAnimationFrame(look);
    };
    look();
}"""
STOP_LOOKING = "() => { window.__seen.on = false; return [...window.__seen.tops] }"
AT_END = """() => {
    const list = document.querySelector('[data-rounds]');
    return list.scrollHeight - list.clientHeight - list.scrollTop < 40;
}"""


def wait_for_round(lab: Any, number: int) -> None:
    lab.page.wait_for_selector(f"[data-round='{number}']", state="attached")


def test_streaming_shifts_nothing_else_and_keeps_the_scroll_position(lab: Any) -> None:
    index = shared(lab, CALM, GO_ON)
    below = lab.write_last("'a cell below'")
    lab.start(index)
    wait_for_round(lab, 21)
    lab.scroll(150)
    before = lab.scrolled(), lab.cell(below).bounding_box()
    with watching(lab.page) as watched:
        wait_for_round(lab, 23)
        lab.page.wait_for_function(AT_END)
    assert [shift.nodes for shift in watched.shifts if any("agentnb" not in node for node in shift.nodes)] == []
    box = rounds(lab, index).bounding_box()
    lab.page.mouse.move(box["x"] + 200, box["y"] + 200)
    lab.page.mouse.wheel(0, -1_500)
    lab.page.wait_for_timeout(1_500)
    with watching(lab.page) as watched:
        rounds(lab, index).evaluate(KEEP_LOOKING)
        wait_for_round(lab, 27)
        tops = lab.page.evaluate(STOP_LOOKING)
    assert len(tops) == 1
    assert watched.shifts == []
    wait_until(lambda: (lab.scrolled(), lab.cell(below).bounding_box()) == before)
    card(lab, index).get_by_role("button", name="Newest").click()
    wait_for_round(lab, 29)
    lab.page.wait_for_function(AT_END)
    card(lab, index).get_by_role("button", name="Newest").wait_for(state="hidden")
    stop(lab, index)


HANDS = """
model = Slow([
    ["A sentence that is done.", write("Load", "Look")],
    [0.1, update(1, "in-progress"), ToolCall("wait", {"what": "hands-selected"})],
    [Until("hands-looked"), "And more words.", update(1, "completed")],
    ToolCall("nap", {"seconds": 600}),
])
"""
SELECT = """card => {
    const words = [...card.querySelectorAll('.agentnb-text')].find(one => one.textContent.includes('A sentence'));
    getSelection().selectAllChildren(words);
}"""
FOCUSED = """() => {
    const one = document.activeElement;
    return [one.dataset.key ?? one.parentElement.dataset.fold ?? one.name];
}"""


def test_folds_selection_and_focus_survive_updates(lab: Any) -> None:
    index = shared(lab, HANDS, GO)
    lab.start(index)
    chip(lab, index, "Running wait")
    shown = card(lab, index)
    fold = shown.locator("[data-fold='call:1:1']")
    fold.locator("summary").first.focus()
    lab.page.keyboard.press("Enter")
    shown.evaluate(SELECT)
    lab.allow("hands-selected")
    fold.and_(lab.page.locator("[data-status=ok]")).wait_for()
    wait_until(lambda: fold.get_attribute("open") is not None)
    wait_until(lambda: lab.page.evaluate("() => getSelection().toString().trim()") == "A sentence that is done.")
    wait_until(lambda: lab.page.evaluate(FOCUSED) == ["call:1:1"])
    shown.locator("[data-key='tick:1']").focus()
    lab.allow("hands-looked")
    shown.get_by_text("Todos 1 of 2").wait_for()
    wait_until(lambda: lab.page.evaluate(FOCUSED) == ["tick:1"])
    chip(lab, index, "Running nap")
    wait_until(lambda: "And more words." in shown.inner_text())
    stop(lab, index)


def test_typed_text_survives_updates(lab: Any) -> None:
    index = shared(lab, CALM, GO_ON)
    lab.start(index)
    wait_for_round(lab, 21)
    box = card(lab, index).get_by_label("Say something to the agent")
    box.focus()
    for letter in "Look at the xd dd a b table":
        lab.page.keyboard.type(letter, delay=30)
    wait_for_round(lab, 24)
    wait_until(lambda: box.input_value() == "Look at the xd dd a b table")
    wait_until(lambda: box.evaluate("box => [document.activeElement === box, box.selectionStart]") == [True, 27])
    wait_until(lambda: lab.page.evaluate(CELLS) == 3)
    stop(lab, index)


# Keys and names

CELLS = "() => document.querySelectorAll('.jp-Notebook .jp-Cell').length"
SOURCES = f"() => {CURRENT}.content.model.sharedModel.cells.map(c => [c.cell_type, c.source])"
NAMELESS = """card => [...card.querySelectorAll('button, input, textarea, summary, [tabindex], [role=region]')]
    .filter(one => !(one.getAttribute('aria-label') || one.labels?.[0]?.textContent || one.textContent).trim())
    .map(one => one.outerHTML)"""
REACHED = """() => {
    const one = document.activeElement;
    return one.closest('.agentnb-card') ? (one.getAttribute('aria-label') || one.textContent).trim() : null;
}"""


def tabbed(lab: Any, index: int) -> list[str]:
    """Return the names of the controls in the card, in Tab order."""
    card(lab, index).get_by_role("button", name="Pause").focus()
    found = []
    while (name := lab.page.evaluate(REACHED)) is not None and len(found) < 60:
        found.append(name)
        lab.page.keyboard.press("Tab")
    return found


def test_every_control_has_a_name_and_is_reachable_by_tab(lab: Any) -> None:
    index = shared(lab, "model = Slow([[write('Load', 'Look'), ToolCall('essay', {'length': 3000})], " + NAP + "])", GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    wait_until(lambda: card(lab, index).evaluate(NAMELESS) == [])
    found = tabbed(lab, index)
    for name in (
        "Pause",
        "Stop",
        "Rounds",
        "Todo 1, Load: mark it as done",
        "Remove todo 2",
        "Add a todo",
        "Say something to the agent",
        "Say",
    ):
        assert name in found, (name, found)
    assert sum("essay" in name for name in found) == 1
    folds = [fold for fold in card(lab, index).locator("summary").all() if fold.is_visible()]
    names = {" ".join(name.split("\n")) for name in found}
    wait_until(lambda: {fold.inner_text().strip() for fold in folds} - {""} <= names or len(folds) == 3)
    stop(lab, index)


def test_notebook_shortcuts_are_inactive_inside_the_card(lab: Any) -> None:
    index = shared(lab, "model = Slow([[write('Load', 'Look')], " + NAP + "])", GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    before = lab.page.evaluate(SOURCES)
    shown = card(lab, index)
    shown.get_by_role("button", name="Show guidance").click()
    for place in (
        "[data-key='tick:1']",
        "[data-key=pause]",
        "[data-rounds]",
        ".agentnb-saw summary",
        ".agentnb-say-live input",
    ):
        shown.locator(place).first.focus()
        for key in ("x", "d", "d", "a", "b", "m", "y", "z", "Shift+M", "Shift+Enter", "Escape", "Control+Enter", "0", "0"):
            lab.page.keyboard.press(key)
    lab.page.wait_for_timeout(300)
    wait_until(lambda: lab.page.evaluate(SOURCES) == before)
    wait_until(lambda: lab.page.locator(".jp-Dialog").count() == 0)
    chip(lab, index, "Running nap")
    stop(lab, index)


def test_keyboard_ticks_todos_and_opens_folds_without_losing_focus(lab: Any) -> None:
    index = shared(lab, "model = Slow([[write('Load', 'Look')], " + NAP + "])", GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    shown = card(lab, index)
    shown.locator("[data-key='tick:1']").focus()
    lab.page.keyboard.press("Space")
    shown.get_by_text("Todos 1 of 2").wait_for()
    wait_until(lambda: lab.page.evaluate(FOCUSED) == ["tick:1"])
    shown.get_by_role("button", name="Show guidance").click()
    shown.locator(".agentnb-saw > summary").first.focus()
    lab.page.keyboard.press("Enter")
    shown.locator(".agentnb-saw[open]").first.get_by_text("Go.").first.wait_for()
    wait_until(lambda: lab.page.evaluate(FOCUSED) == ["saw:0"])
    shown.get_by_role("button", name="Pause").focus()
    lab.page.keyboard.press("Enter")
    shown.get_by_text("Pausing before the next round").wait_for()
    wait_until(lambda: lab.page.evaluate("() => !!document.activeElement.closest('.agentnb-card')"))
    stop(lab, index)


LISTEN = """() => {
    const said = window.__said = [];
    for (const one of document.querySelectorAll('[role=status].agentnb-unseen')) one.remove();  // of runs before
    const hear = () => {
        for (const one of document.querySelectorAll('[role=status].agentnb-unseen')) {
            const text = one.textContent.trim();
            if (text && one.lastSaid !== text) said.push(one.lastSaid = text);
        }
    };
    new MutationObserver(hear).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""


HEARD = "wanted => window.__said.filter(one => one !== 'Starting').slice(0, wanted.length).join() === wanted.join()"


@pytest.mark.req("R3.37", "R3.13")
def test_screen_reader_hears_state_changes_but_no_model_text(lab: Any) -> None:
    words = " ".join(["word"] * 90)
    first = f"[{words!r}, ToolCall('wait', {{'what': 'heard-tool'}})]"
    index = shared(lab, f"model = Slow([{first}, [Until('heard-thinking'), 'Well done.']], pause=0.01)", GO)
    lab.page.evaluate(LISTEN)
    lab.start(index)
    wanted = ["Thinking", "Running wait", "Thinking", "Done, not checked"]
    for count, then in ((2, "heard-tool"), (3, "heard-thinking")):
        lab.page.wait_for_function(HEARD, arg=wanted[:count])
        lab.allow(then)
    ended(lab, index, "Done")
    lab.wait_done(index)
    spoken = lab.page.evaluate("() => window.__said")
    assert [message for message in spoken if message != "Starting"] == wanted


# Colours and widths

RICH = """
from agentnb.core.messages import Thinking
model = Slow([
    [Thinking("I think that I think."), "Some **words** and `code`.", write("Load", "Look", "Tell"),
     ToolCall("load_penguins", {"path": "x"})],
    [update(1, "in-progress"), ToolCall("essay", {"length": 5}), ToolCall("load_penguins", {"wrong": 1})],
    [update(1, "completed"), update(2, "in-progress"), ToolCall("nap", {"seconds": 600})],
])
"""


def state_is_told_in_words_as_well_as_in_colour(lab: Any, index: int) -> None:
    word = "all => all.map(one => [one.dataset.status, one.querySelector('.agentnb-tool-state')?.textContent ?? 'ok'])"
    states = card(lab, index).locator("[data-status]").evaluate_all(word)
    assert {status for status, _ in states} >= {"ok", "failed", "running"}
    assert all(status in text for status, text in states)


def one_can_read_it_in_the_light_and_in_the_dark_theme(lab: Any, index: int) -> None:
    light = card(lab, index).evaluate(COLOURS)
    assert len(light) > 40
    assert faint(light) == []
    lab.theme("Dark")
    lab.page.wait_for_timeout(300)
    dark = card(lab, index).evaluate(COLOURS)
    lab.shot("calm-dark")
    assert faint(dark) == []
    assert not {element[3] for element in dark} & {element[3] for element in light}
    lab.theme("Light")


def it_fits_a_narrow_window_and_uses_a_wide_one(lab: Any, index: int) -> None:
    side, main = (card(lab, index).locator(f".agentnb-{name}") for name in ("side", "main"))
    wait_until(lambda: side.bounding_box()["x"] >= main.bounding_box()["x"] + main.bounding_box()["width"] - 1)
    lab.command_done("application:toggle-left-area")
    lab.width(700)
    lab.page.wait_for_timeout(300)
    lab.shot("calm-700")
    wait_until(lambda: side.bounding_box()["y"] + side.bounding_box()["height"] <= main.bounding_box()["y"] + 1)
    parts = "'[data-rounds], .agentnb-side, .agentnb-body'"
    wide = f"card => [card, ...card.querySelectorAll({parts})].map(one => one.scrollWidth - one.clientWidth)"
    wait_until(lambda: max(card(lab, index).evaluate(wide)) <= 0)
    lab.width(1400)


def test_running_card_is_readable_in_any_theme_and_width(lab: Any, subtests: pytest.Subtests) -> None:
    index = shared(lab, RICH, GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    for fold in card(lab, index).locator("details:not([open]) > summary").all():
        if fold.is_visible():
            fold.click()
    lab.page.wait_for_timeout(500)
    for check in (
        state_is_told_in_words_as_well_as_in_colour,
        one_can_read_it_in_the_light_and_in_the_dark_theme,
        it_fits_a_narrow_window_and_uses_a_wide_one,
    ):
        with subtests.test(check.__name__):
            check(lab, index)
    stop(lab, index)


# Leftovers of many cards

LOOP = """
from agentnb.models import ScriptedModel
shell = get_ipython()
def go(count):
    for _ in range(count):
        shell.user_ns["model"] = Slow([[0.01, ToolCall("doze", {"seconds": 0.01})], "Done."])
        shell.run_cell_magic("agent", "-m model -t doze -g off -p minimal", "Go.")
"""
COMMS = f"{KERNEL}._comms.size"


def nodes(lab: Any) -> int:
    """Return the number of DOM nodes after garbage collection."""
    asked = lab.page.context.new_cdp_session(lab.page)
    for _ in range(3):
        asked.send("HeapProfiler.collectGarbage")
    return int(asked.send("Memory.getDOMCounters")["nodes"])


def test_many_cards_leak_nothing_in_kernel_or_page(fresh_lab: Any) -> None:
    lab = fresh_lab
    index = opened(lab, "leaks", LOOP, "go(20)")

    def left() -> int:
        lab.wait_for_value("len(__import__('ipywidgets').widget._instances) <= 2 * 8", "True")
        lab.page.wait_for_function(f"() => {COMMS} <= 2 * 8")
        lab.command_done("notebook:clear-all-cell-outputs")
        lab.page.wait_for_timeout(500)
        return nodes(lab)

    lab.run(index)
    early = left()
    batches = size(1, nightly=3)
    for _ in range(batches):
        lab.run(lab.write_last("go(60)"))
    assert left() <= (1 + 0.1 * batches) * early
    assert [
        complaint for complaint in lab.complaints() if "processLuminoMessage" not in complaint
    ] == []  # of ipywidgets, if its view closes early
