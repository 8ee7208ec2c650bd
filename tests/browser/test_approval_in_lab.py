"""The question about a tool call, in a real JupyterLab: each answer with the mouse, and with the keyboard alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from test_card_in_lab import card, chip, ended, nothing_is_left, opened
from waiting import wait_until

pytestmark = pytest.mark.browser
ASKED = """
from pathlib import Path
from agentnb import tool

@tool(command="command")
def bash(command: str, timeout: int = 30) -> str:
    "Run a command."
    return f"ran {command} for {timeout}"

@tool(path="path", content="content")
def write_file(path: str, content: str, mode: str | None = None, lines: list[int] = []) -> str:
    "Write a file."
    return f"wrote {path}: {content}"

Path("src").mkdir(exist_ok=True)
rest = "# a line that is quite long, and tells how lines are wrapped where a notebook has a narrow window beside others\\n"
Path("src/note.py").write_text('def note(text):\\n    return "<b>" + text\\n' + rest)
content = 'def note(text):\\n    return "<script>" + text.strip()\\n' + rest
"""
BASH = "model = Slow([ToolCall('bash', {'command': 'git status -s  src', 'timeout': 5}), 'Done.'])"
WRITE = "model = Slow([ToolCall('write_file', {'path': 'src/note.py', 'content': content}), 'Done.'])"
LONG = "model = Slow([ToolCall('write_file', {'path': 'src/long.py', 'content': 'print()\\n' * 60}), 'Done.'])"
IN_SIGHT = """element => {
    const [own, list] = [element, element.closest("[data-rounds]")].map((one) => one.getBoundingClientRect());
    return own.top >= list.top - 1 && own.bottom <= list.bottom + 1;
}"""
GO = "%%agent -m model -t bash write_file --approve ask\nGo."


NAME = "() => document.activeElement.innerText || document.activeElement.name"


def asked(lab: Any, name: str, model: str, go: str = GO) -> tuple[int, Any]:
    """Run the cell until its card asks; its index and the question."""
    index = opened(lab, f"approval-{name}", ASKED, model, go)
    lab.start(index)
    chip(lab, index, "Waiting for you")
    question = card(lab, index).locator(".agentnb-question")
    question.wait_for()
    return index, question


def went_on(lab: Any, index: int, result: str, told: str) -> None:
    """Wait until the run has ended, with that result of the call, and the answer stands in its saved form."""
    ended(lab, index, "Done")
    lab.wait_done(index)
    assert result in lab.value("run.rounds[0].results[0].text")
    wait_until(lambda: told in lab.cell(index).locator(".agentnb-run").text_content())
    nothing_is_left(lab)


def test_call_is_shown_in_full_and_approved(lab: Any) -> None:
    index, question = asked(lab, "approve", BASH)
    question.locator("pre", has_text="git status -s··src").wait_for()
    question.locator("pre", has_text="timeout: 5").wait_for()
    lab.shots("approval-command", question)
    question.get_by_role("button", name="Approve", exact=True).click()
    went_on(lab, index, "ran git status -s", "You approved")


def test_approving_later_calls_explains_each_choice(lab: Any) -> None:
    index, question = asked(lab, "always", BASH)
    question.get_by_role("button", name="Also allow later calls").click()
    calls, reach = question.get_by_label("Later calls to allow"), question.get_by_label("How long")
    question.get_by_text("Allowed in this run: git status followed by any words").wait_for()
    lab.shots("approval-always", question)
    reach.select_option("session")
    question.get_by_text("Allowed in all runs until the kernel ends: git status followed by any words").wait_for()
    reach.select_option("project")
    question.get_by_text("saved until you withdraw it: git status followed by any words").wait_for()
    calls.select_option("bash")
    question.get_by_text("Allowed in this run: every call to bash, whatever its arguments.").wait_for()
    wait_until(lambda: reach.input_value() == "run")  # the other one is not offered for these calls
    calls.select_option("bash(git status *)")
    question.get_by_role("button", name="Approve and allow").click()
    went_on(lab, index, "ran git status", "You approved, and all later calls that match git status * in this run")
    assert lab.value("run.questions[0].answer") == "{'always': 'bash(git status *)', 'reach': 'run'}"


@pytest.mark.nightly("by day tests of saved rules answer with patterns")
def test_typed_pattern_is_granted_or_refused_with_the_reason(lab: Any) -> None:
    index, question = asked(lab, "pattern", BASH)
    question.get_by_role("button", name="Also allow later calls").click()
    question.get_by_label("Later calls to allow").select_option("")
    pattern = question.get_by_label("Pattern (* is any text)")
    pattern.fill("rm(*)")
    question.get_by_role("button", name="Approve and allow").click()
    question.locator(".agentnb-pattern .agentnb-field-error", has_text="Please enter bash(git status *) or bash").wait_for()
    wait_until(lambda: pattern.input_value() == "rm(*)" and pattern.get_attribute("aria-invalid") is not None)
    lab.shots("approval-pattern-refused", question)
    pattern.fill("bash(git *)")
    question.get_by_label("How long").select_option("session")
    question.get_by_role("button", name="Approve and allow").click()
    went_on(lab, index, "ran git status", "You approved, and all later calls that match git * until the kernel ends")
    assert lab.value("run.questions[0].answer") == "{'always': 'bash(git *)', 'reach': 'session'}"


@pytest.mark.nightly("by day a call is shown in full")
def test_long_call_opens_at_the_top_with_answers_visible(lab: Any) -> None:
    index, question = asked(lab, "long", LONG)
    row, title = question.locator(".agentnb-answers"), question.get_by_text("Create src/long.py")
    for width in (700, 1400):
        lab.width(width)
        wait_until(lambda: title.evaluate(IN_SIGHT) and row.evaluate(IN_SIGHT))
    lab.shots("approval-long", card(lab, index))
    question.get_by_role("button", name="Approve").first.click()
    went_on(lab, index, "wrote src/long.py", "You approved")


def test_arguments_are_edited_in_a_form_showing_field_errors(lab: Any) -> None:
    index, question = asked(lab, "edit", WRITE)
    question.locator(".agentnb-line-added", has_text='+    return "<script>" + text.strip()').wait_for()
    question.locator(".agentnb-line-removed", has_text='-    return "<b>" + text').wait_for()
    lab.shots("approval-diff", question)
    question.get_by_role("button", name="Edit").click()
    path, lines = question.get_by_label(re.compile("^path")), question.get_by_label(re.compile("^lines"))
    path.fill("src/other.py")
    lines.fill("[1, ")
    question.get_by_role("button", name="Approve with these arguments").click()
    question.locator(".agentnb-form-field", has_text="lines").get_by_text("Enter valid JSON").wait_for()
    wait_until(lambda: path.input_value() == "src/other.py" and lines.get_attribute("aria-invalid") is not None)
    lab.shots("approval-edit-refused", question)
    lines.fill('["x"]')
    question.get_by_role("button", name="Approve with these arguments").click()
    question.locator(".agentnb-form-field", has_text="lines").get_by_text('"x" is not of type "integer"').wait_for()
    lines.fill("[1]")
    question.get_by_role("button", name="Approve with these arguments").click()
    went_on(lab, index, "wrote src/other.py: def note", "You approved with other arguments")
    assert lab.value("run.questions[0].answer['edit']['lines']") == "[1]"


def test_call_is_rejected_with_a_reason(lab: Any) -> None:
    index, question = asked(lab, "reject", BASH)
    question.get_by_role("button", name="Reject…").click()
    reason = question.get_by_label("Reason, for the model (may be empty)")
    wait_until(lambda: reason.evaluate("field => field === document.activeElement"))
    lab.shots("approval-reject", question)
    reason.fill("The <i>other</i> folder")
    question.get_by_role("button", name="Reject", exact=True).click()
    went_on(lab, index, "The <i>other</i> folder", "You rejected: “The <i>other</i> folder”")


def test_every_answer_is_reachable_by_keyboard_alone(lab: Any) -> None:
    index, question = asked(lab, "keys", WRITE)
    keys = lab.page.keyboard
    question.get_by_role("button", name="Approve", exact=True).focus()
    reached = []
    for _ in range(5):
        reached.append(lab.page.evaluate(NAME))
        keys.press("Tab")
    assert reached == ["Approve", "Reject…", "Edit", "Later", "Also allow later calls"]
    question.get_by_role("button", name="Also allow later calls").focus()
    keys.press("Enter")
    calls, more = question.get_by_label("Later calls to allow"), question.get_by_role("button", name="Also allow later calls")
    wait_until(lambda: calls.evaluate("field => field === document.activeElement"))
    wait_until(lambda: more.get_attribute("aria-expanded") == "true")
    keys.press("Escape")
    calls.wait_for(state="hidden")
    question.get_by_role("button", name="Edit").focus()
    keys.press("Enter")
    path = question.get_by_label(re.compile("^path"))
    wait_until(lambda: path.evaluate("field => field === document.activeElement"))
    keys.press("Escape")
    path.wait_for(state="hidden")
    wait_until(lambda: lab.page.evaluate(NAME) == "Edit")
    keys.press("Enter")
    wait_until(lambda: path.evaluate("field => field === document.activeElement"))
    keys.press("Control+a")
    keys.type("x")
    keys.press("Tab")
    keys.press("End")
    keys.press("Enter")  # a line break
    keys.press("Control+Enter")
    went_on(lab, index, "wrote x", "You approved with other arguments")


AGAIN = """element => {
    const [piece, view] = [element.closest("[data-piece]"), element.closest(".agentnb-card").agentnbView];
    const html = piece.shown;
    piece.shown = "";
    view.put(piece, html);
}"""


def test_typed_text_survives_redraws_and_questions_survive_reloads(lab: Any) -> None:
    index, question = asked(lab, "reload", BASH, GO.replace("--approve", "--background --approve"))
    lab.save()
    question.get_by_role("button", name="Edit").click()
    command = question.get_by_label(re.compile("^command"))
    command.fill("git log")
    command.evaluate("field => field.setSelectionRange(3, 3)")
    question.evaluate(AGAIN)
    lab.page.keyboard.type(" -C src")
    wait_until(lambda: command.input_value() == "git -C src log")
    lab.reload()
    chip(lab, index, "Waiting for you")
    question.get_by_role("button", name="Edit").click()
    command.fill("git diff")
    question.get_by_role("button", name="Approve with these arguments").click()
    ended(lab, index, "Done")
    lab.wait_for_value("'ran git diff for 5' in run.rounds[0].results[0].text", "True")
