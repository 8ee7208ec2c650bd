"""``%%guidance``, ``-g``, ``-p``, ``--workflow-mode`` and ``%agent todos`` in a real kernel."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from asserted_sentences import Snapshot

PLAN = "- first `add(1)`\n- second `add(a=3, b=4)`\n"
SCRIPT = "from agentnb import ToolCall\nfrom agentnb.models import ScriptedModel\n"
TWO_TODOS = """
def todos(**given):
    return ToolCall("todo_operations", given)

def listed():
    return todos(operation="write", todoList=[{"id": n, "title": f"Step {n}", "status": "not-started"} for n in (1, 2)])

def marked(number, status="completed"):
    return todos(operation="update", todoUpdates=[{"id": number, "status": status}])
"""


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def todos_in(html: str) -> list[str]:
    """Return the entries of the list with their marks, as they read without styles."""
    listed = re.findall(r'<ul class="agentnb-todos.*?</ul>', html, re.DOTALL)
    assert len(listed) == 1
    return [words_of(match) for match in re.findall(r"<li.*?</li>", listed[0], re.DOTALL)]


def test_guidance_cell_defines_a_set_for_the_next_cell(kernel: Any) -> None:
    wrote = kernel.run("%%guidance brief\n# tools\nOnly numbers, round {{ round }}.\n")
    assert wrote.status == "ok"
    assert "brief, version " in wrote.printed and "Own parts: tools." in wrote.printed
    assert kernel.run(f"%%agent -t add -g brief\n{PLAN}").status == "ok"
    assert (
        kernel.value("run.settings['guidance']['set'], run.rounds[-1].guidance[0].text")
        == "('brief', 'Only numbers, round 5.')"
    )


def test_body_of_a_set_is_not_interpolated(kernel: Any) -> None:
    kernel.run("next_todo = 'mine'")
    kernel.run("%%guidance own\nDo {{ next_todo }}.")
    assert "{{ next_todo }}" in kernel.run("%agent guidance own").printed


def test_sets_are_listed_and_shown(kernel: Any) -> None:
    kernel.run("%%guidance own\n# text\nSpeak.")
    listed = kernel.run("%agent guidance").printed.splitlines()
    assert [line.split()[0] for line in listed][:2] == ["matrix", "off"]
    assert any(line.startswith("own ") and line.endswith("own parts: text") for line in listed)
    shown = kernel.run("%agent guidance matrix").printed
    assert "# todos_text\n\nCRITICAL WORKFLOW GUIDANCE (TODO MODE):" in shown


def test_set_can_be_assigned_to_a_variable(kernel: Any) -> None:
    kernel.run("%%guidance own -o mine\n# text\nSpeak.")
    assert kernel.value("mine.name, mine.parts['text']") == "('own', 'Speak.')"
    assert kernel.run(f"%%agent -t add -g mine\n{PLAN}").status == "ok"
    assert kernel.value("run.settings['guidance']['set']") == "own"


def test_mistake_is_reported_in_one_line_with_a_suggestion(kernel: Any, subtests: pytest.Subtests) -> None:
    for cell, expected in [
        ("%%guidance\nhello", "The following arguments are required: NAME"),
        ("%%guidance matrix\nhello", "matrix is a built-in guidance set"),
        ("%%guidance own", "The guidance set is empty"),
        ("%%guidance own\n# todo_text\nhello", "Did you mean todos_text"),
        ("%%guidance own\n# text\nDo {{ next_tood }}.", "Did you mean next_todo"),
        ("%%agent -g other\nhi", "There is no guidance set 'other'"),
        ("%%agent -p strict\nhi", "There is no policy 'strict'"),
        ("%%agent -p minimal --workflow-mode\nhi", "The policy minimal has no workflow mode"),
        ("%agent guidance other", "There is no guidance set 'other'"),
        ("%agent defaults guidance=other", "There is no guidance set 'other'"),
        ("%agent defaults policy=other", "There is no policy 'other'"),
    ]:
        with subtests.test(cell):
            failed = kernel.run(cell)
            assert failed.status == "error"
            assert expected in failed.error and len(failed.error.strip().splitlines()) == 1


def test_invalid_set_keeps_the_previous_one(kernel: Any) -> None:
    kernel.run("%%guidance own\nSpeak.")
    assert kernel.run("%%guidance own\n# nonsense\nSpeak.").status == "error"
    assert "Speak." in kernel.run("%agent guidance own").printed


def test_defaults_choose_set_and_policy_for_all_cells(kernel: Any) -> None:
    kernel.run("%%guidance own\nSpeak.")
    kernel.run("%agent defaults guidance=own policy=minimal")
    kernel.run(f"%%agent -t add\n{PLAN}")
    kernel.run("%agent defaults guidance=matrix policy=matrix")
    assert kernel.value("run.settings['guidance']['set'], run.settings['policy']['name']") == "('own', 'minimal')"


def test_workflow_mode_continues_until_the_model_declares_completion(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}model = ScriptedModel(['Half of it.', 'All of it.\\n[WORKFLOW_COMPLETE]'])")
    kernel.run("%%agent -m model --workflow-mode\nDo it.")
    assert kernel.value("run.stop_reason, len(run.rounds), run.text") == "('workflow_complete', 2, 'All of it.')"


def test_completion_marker_is_not_shown_while_text_streams(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}model = ScriptedModel(['All of it.\\n[WORKFLOW_COMPLETE]'])")
    cell = kernel.run("%%agent -m model --workflow-mode\nDo it.")
    assert not any("WORKFLOW_COMPLETE" in str(output) for output in cell.outputs)


def test_next_run_knows_todos_ticked_by_the_person(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}{TWO_TODOS}first = ScriptedModel([listed(), marked(1, 'in-progress'), marked(1)])")
    kernel.run("%%agent -m first -t add --max-rounds 3\nDo it.")
    assert kernel.run("%agent todos").printed.splitlines() == [
        "1 of 2 completed",
        "1. [completed] Step 1",
        "2. [not-started] Step 2",
    ]
    assert "as you changed them" not in kernel.run("%agent status").printed
    assert kernel.run("%agent todos done 2").printed.startswith("2 of 2 completed")
    assert "Its todos, as you changed them: 2 of 2 completed\n" in kernel.run("%agent status").printed
    kernel.run("second = ScriptedModel(['It is done.'])")
    kernel.run("%%agent -m second -t add --continue\nAnd?")
    assert kernel.value("run.stop_reason, [t.status for t in run.todos]") == "('natural', ['completed', 'completed'])"


def test_person_can_move_todos_before_others_or_to_the_end(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}{TWO_TODOS}model = ScriptedModel([listed()])")
    kernel.run("%%agent -m model -t add --max-rounds 1\nDo it.")
    added = kernel.run('%agent todos add "Look at it"').printed
    assert "Look at it" in added and '"' not in added
    moved = kernel.run("%agent todos move 3 before 1")
    assert [line[0] for line in moved.printed.splitlines()[1:]] == ["3", "1", "2"]
    assert [line[0] for line in kernel.run("%agent todos move 1").printed.splitlines()[1:]] == ["3", "2", "1"]


@pytest.mark.req("R0.62")
def test_todo_list_survives_the_kernel(kernel: Any, snapshot: Snapshot) -> None:
    kernel.run(f"{SCRIPT}{TWO_TODOS}model = ScriptedModel([listed(), marked(1, 'in-progress'), marked(1)])")
    kernel.run("%%agent -m model -t add --max-rounds 3\nDo it.")
    run_id = kernel.value("run.id").strip("'")
    kernel.run("get_ipython()._agentnb_session = None\n%reload_ext agentnb")  # a session without memory
    kernel.run(f"%agent load {run_id}")
    assert "2. [not-started] Step 2" in kernel.run("%agent todos").printed
    kernel.run("%agent todos add Look at the result")
    kernel.run("model = ScriptedModel(['Not yet.'])")
    kernel.run("%%agent -m model -t add --continue --max-rounds 1\nGo on.")
    assert kernel.value("[t.title for t in run.todos]") == snapshot


def test_invalid_todo_command_is_refused_in_one_line(kernel: Any, subtests: pytest.Subtests) -> None:
    for line, expected in [
        ("%agent todos", "There is no todo list"),
        ("%agent todos done x", "not a todo number"),
        ("%agent todos finish 1", "%agent todos has no command 'finish'"),
        ("%agent todos done 9", "There is no todo 9"),
        ("%agent todos add", "The todo has no title"),
        ("%agent todos move", "Which todo should be moved?"),
        ("%agent todos move 1 after 2", "'1 after 2' does not name a todo and its new position"),
        ("%agent todos move 2 before 9", "There is no todo 9"),
    ]:
        with subtests.test(line):
            if line != "%agent todos":
                kernel.run(f"{SCRIPT}{TWO_TODOS}model = ScriptedModel([listed()])")
                kernel.run("%%agent -m model -t add --max-rounds 1\nDo it.")
            else:
                kernel.run("%%agent\nhello")
            failed = kernel.run(line)
            assert failed.status == "error" and expected in failed.error and len(failed.error.strip().splitlines()) == 1


def test_card_shows_guidance_and_todos(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}{TWO_TODOS}model = ScriptedModel([listed(), 'I will begin soon, I promise.', 'Soon.'])")
    kernel.run("%%agent -m model -t add --max-rounds 3\nDo it.")
    html = kernel.run("run").result["text/html"]
    assert todos_in(html) == ["○ open: Step 1", "○ open: Step 2"]
    assert "Ignored guidance: no tool was called" in words_of(html)
    assert "Ignored intervention: " in words_of(html)
    assert "Todos 0 of 2" in html


def test_sets_policies_and_todo_commands_are_completed(kernel: Any) -> None:
    kernel.run("%%guidance brief\nSpeak.")
    for code, offered in (
        ("%%agent -g br", "brief"),
        ("%%agent -p mi", "minimal"),
        ("%agent todos do", "done"),
        ("%agent guidance o", "off"),
    ):
        assert offered in kernel.client.complete(code, len(code), reply=True, timeout=30)["content"]["matches"]


def test_rewritten_set_replaces_the_old_one(kernel: Any) -> None:
    kernel.run("%%guidance again -o again\n# text\nFirst version.")
    kernel.run("%%guidance again\n# text\nSecond version.")
    assert kernel.run("%agent guidance again text").printed.strip() == "Second version."
    assert kernel.value("again.parts['text']") == "Second version."
    kernel.run("%%agent -t add -g again\nhello")
    assert kernel.value("run.settings['guidance']['version'] == again.version") == "True"


def test_todo_title_of_the_person_is_not_expanded(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}{TWO_TODOS}x = 5\nmodel = ScriptedModel([listed()])")
    kernel.run("%%agent -m model -t add --max-rounds 1\nDo it.")
    assert "3. [not-started] Plot {x} and {{ x }} for $x" in kernel.run("%agent todos add Plot {x} and {{ x }} for $x").printed


def test_other_commands_still_expand_variables(kernel: Any) -> None:
    kernel.run("%%agent -t add\n- `add(1)`")
    kernel.run("first = run")
    assert kernel.run("%agent load {first.id}").status == "ok"
    assert kernel.run("%agent load $first.id").status == "ok"


def test_todos_change_one_at_a_time(kernel: Any) -> None:
    kernel.run(f"{SCRIPT}{TWO_TODOS}model = ScriptedModel([listed()])")
    kernel.run("%%agent -m model -t add --max-rounds 1\nDo it.")
    failed = kernel.run("%agent todos done 1 2")
    assert "takes one todo, but also got '2'" in failed.error
    assert kernel.run("%agent todos").printed.startswith("0 of 2 completed")


def test_long_list_is_shown_around_the_current_todo(kernel: Any) -> None:
    kernel.run("from agentnb import Agent, TodoBoard\nfrom agentnb.models import ScriptedModel")
    kernel.run(
        "board = TodoBoard([{'title': f'Step {n}', 'status': 'completed' if n < 100 else 'not-started'} for n in range(200)])"
    )
    kernel.run("run = Agent(ScriptedModel(['Fine.']), todos=board, max_rounds=1).run_sync('go')")
    html = kernel.run("run").result["text/html"]
    shown = todos_in(html)
    assert shown[0] == "80 todos before" and shown[-1] == "80 todos after"
    assert shown[1:-1] == [f"✓ done: Step {n}" for n in range(80, 100)] + [f"○ open: Step {n}" for n in range(100, 120)]


def test_continuing_without_previous_tools_is_reported(kernel: Any) -> None:
    kernel.run("%%agent -t add nap\n- `add(1)`")
    assert "To use them again: -t add nap" in kernel.run("%%agent --continue\nGo on.").printed
    kernel.run("%%agent -t add\n- `add(1)`")
    assert "To use them again" not in kernel.run("%%agent --continue -t add\nGo on.").printed
