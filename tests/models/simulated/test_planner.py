"""The simulated model without faults, keeping a todo list."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot
from replies_by_hand import PROMPT, add, ask, conversation, do, reply, updates, work

from agentnb import Agent, Run
from agentnb.core.messages import Message, Text, ToolCall, ToolResult, user
from agentnb.core.request import Request
from agentnb.core.todos import TODO_TOOL, open_todos
from agentnb.models import SimulatedModel
from agentnb.models.simulated.observation import Observation
from agentnb.policies import Matrix
from agentnb.tools.todos.board import TodoBoard

MODEL = SimulatedModel()
OPEN = "There are todos that are still open."


def told(text: str) -> Text:
    return Text(f"<system-reminder>\n{text}\n</system-reminder>")


def of_the_list(run: Run) -> list[Any]:
    """Return the todo calls by round: ids and statuses of updates, otherwise the operation."""
    return [
        [call.arguments.get("todoUpdates", call.arguments["operation"]) for call in round_.calls if call.name == TODO_TOOL]
        for round_ in run.rounds
    ]


def marks(*pairs: tuple[int, str]) -> list[dict[str, Any]]:
    return [{"id": number, "status": status} for number, status in pairs]


def whole(rounds: int, *more: Message) -> tuple[Message, ...]:
    return (*conversation(rounds)[0], *more)


def after_the_answer(reminder: str = "", board: str = "", *, said: str = "Please continue") -> tuple[Message, ...]:
    """Return a whole run, its answer, a message of the person and, with a board, one reading of it."""
    run = do("simulated:disciplined")
    transient = (told(reminder),) if reminder else ()
    asked = Message("user", (Text(said), *(() if board else transient)))
    if not board:
        return (*run.messages, asked)
    call = ToolCall(TODO_TOOL, {"operation": "read"}, "r")
    result = ToolResult("r", TODO_TOOL, (Text(f"Read them.\n\nTodos (0 of 9 completed):\n{board}"),))
    return (*run.messages, asked, Message("assistant", (Text("I read."), call)), Message("tool", (result, *transient)))


@pytest.mark.req("R0.84")
def test_planner_writes_steps_and_updates_each_before_and_after(snapshot: Snapshot) -> None:
    run = do("simulated:disciplined", guidance="matrix")
    assert of_the_list(run) == [
        ["write"],
        [marks((1, "in-progress"))],
        [marks((1, "completed"), (2, "in-progress"))],
        [marks((2, "completed"), (3, "in-progress"))],
        [marks((3, "completed"))],
        [],
    ]
    assert [work(reply(MODEL, at)) for at in range(6)] == [[], [1], [2], [3], [], []]
    assert run.text == snapshot
    assert (run.stop_reason, open_todos(run.todos)) == ("natural", ())
    assert not any(guidance.cell == "intervention" for round_ in run.rounds for guidance in round_.guidance)


def test_todo_updates_precede_the_work_of_the_same_reply() -> None:
    assert [call.name for call in reply(MODEL, 2).message.calls] == [TODO_TOOL, "add"]


def test_long_item_becomes_a_short_recognizable_title() -> None:
    run = do("simulated:disciplined", "- " + "Think hard about it and then " * 9 + "`add(1)`\n- `add(2)`")
    assert len(run.todos[0].title) <= 60 and run.todos[0].title.endswith(" …")
    assert not open_todos(run.todos) and run.stop_reason == "natural"


def test_planner_extends_an_existing_list_and_recognizes_its_todos() -> None:
    first = do("simulated:disciplined")
    agent = Agent("simulated:disciplined", tools=[add], guidance="off")
    again = agent.run_sync(PROMPT, continue_from=first)
    assert of_the_list(again)[:3] == [["add"], [marks((4, "in-progress"))], [marks((4, "completed"), (5, "in-progress"))]]
    assert [todo.status for todo in again.todos] == ["completed"] * 6


def test_equal_items_become_separate_todos() -> None:
    run = do("simulated:disciplined", "- again `add(1)`\n- again `add(1)`")
    assert of_the_list(run)[1:3] == [[marks((1, "in-progress"))], [marks((1, "completed"), (2, "in-progress"))]]


def test_failed_list_write_is_retried_once() -> None:
    messages, tools = conversation(1)
    failed = ToolResult("x", TODO_TOOL, (Text("The board is away."),), is_error=True)
    refused = (*messages[:2], Message("tool", (failed,)))
    second = ask(MODEL, *refused, tools=tools)
    assert [call.arguments["operation"] for call in second.message.calls] == ["add"]
    third = ask(MODEL, *refused, second.message, Message("tool", (failed,)), tools=tools)
    assert (third.message.text, updates(third), work(third)) == ("Step 1 of 3: One add(1).", [], [1])


def test_step_with_only_failed_calls_is_blocked_with_the_reason() -> None:
    def look(a: int) -> int:
        """Look."""
        if a < 0:
            raise ValueError("nothing there")
        return a

    run = do("simulated:disciplined", "- `look(-1)`\n- `look(-1)` and `look(1)`\n- `look(-2)`", tools=[look], guidance="matrix")
    assert [todo.status for todo in run.todos] == ["blocked", "completed", "blocked"]
    assert (run.todos[0].blocked_reason, run.stop_reason) == ("look failed", "blocked")
    assert run.rounds[-2].text.startswith("No step is left; I update the todos")
    assert run.text.startswith("Done: 3 steps (2 failed), 4 tool calls.\n\nlook failed:")


def test_rejected_step_is_blocked_as_rejected(snapshot: Snapshot) -> None:
    run = do("simulated:disciplined", "- `add(1)`", guidance="matrix", permissions={"add": "deny"})
    assert [todo.blocked_reason for todo in run.todos] == ["add was rejected"]
    assert run.text == snapshot


def fails(a: int) -> int:
    """Fails for what is below 0."""
    if a < 0:
        raise ValueError("nothing there")
    return a


def test_planner_without_a_list_stops_before_a_failure_loop() -> None:
    prompt = "\n".join(f"- `fails({number})`" for number in (-1, -2, -3, -4, 5))
    run = do("simulated:disciplined", prompt, tools=[fails], guidance="matrix", todos=False)
    assert work_of(run) == [-1, -2, -3] and run.text.startswith("Done: 3 steps (3 failed)")
    listed = do("simulated:disciplined", prompt, tools=[fails], guidance="matrix")
    assert work_of(listed) == [-1, -2, -3, -4, 5], "a list can say what is blocked"


def test_failing_step_is_tried_at_most_twice() -> None:
    prompt = "- `fails(-1)`\n- `fails(1)`\n- `fails(2)`"
    tries = [work_of(do(f"simulated:early-stopper?p=0.9&seed={seed}", prompt, tools=[fails])).count(-1) for seed in range(8)]
    assert max(tries) == 2


def mended_after_a_failure() -> tuple[Agent, Any, Run]:
    """Return an agent, its run with a failed tool, and that tool, which works by now."""
    broken = [True]

    def look(a: int) -> int:
        """Look."""
        if broken[0] and a == 1:
            raise ValueError("nothing there")
        return a

    agent = Agent(MODEL, tools=[look], guidance="matrix")
    first = agent.run_sync("- `look(1)`\n- `look(2)`")
    broken[0] = False
    return agent, look, first


def test_reopened_failed_step_is_retried_after_a_message() -> None:
    agent, look, first = mended_after_a_failure()
    left = agent.run_sync("I mended it.", continue_from=first)
    assert (left.stop_reason, work_of(left)) == ("blocked", []), "a todo that is blocked stays so"
    board = TodoBoard(left.todos)
    board.reopen(1)
    mended = Agent(MODEL, tools=[look], guidance="matrix", todos=board).run_sync("I mended it.", continue_from=left)
    assert (mended.stop_reason, work_of(mended)) == ("natural", [1])
    assert [todo.status for todo in mended.todos] == ["completed", "completed"]


def test_repeated_task_resumes_open_todos_with_the_same_titles() -> None:
    agent, _, first = mended_after_a_failure()
    again = agent.run_sync("- `look(1)`\n- `look(3)`", continue_from=first)
    assert (again.stop_reason, work_of(again)) == ("natural", [1, 3])
    assert [(todo.title, todo.status) for todo in again.todos] == [
        (title, "completed") for title in ("look(1)", "look(2)", "look(3)")
    ]


def work_of(run: Run) -> list[int]:
    """Return the arguments of the work calls of a run."""
    return [call.arguments["a"] for round_ in run.rounds for call in round_.calls if call.name != TODO_TOOL]


def test_step_completed_by_the_person_is_skipped() -> None:
    board = TodoBoard()

    def help_along(a: int) -> int:
        """Adds, while somebody completes the last todo."""
        board.complete(3)
        return a

    prompt = "- `help_along(1)`\n- `help_along(2)`\n- `help_along(3)`"
    run = do("simulated:disciplined", prompt, tools=[help_along], todos=board)
    assert [call.arguments["a"] for round_ in run.rounds for call in round_.calls if call.name != TODO_TOOL] == [1, 2]
    assert run.text.startswith("Done: 2 steps") and not open_todos(board.read())


def test_reopened_todo_is_completed_again_at_the_end() -> None:
    board = TodoBoard()

    def undo(a: int) -> int:
        """Adds, while somebody opens the first todo again."""
        board.reopen(1)
        return a

    run = do("simulated:disciplined", "- `add(1)`\n- `add(2)`\n- `undo(3)`", tools=[add, undo], todos=board)
    assert of_the_list(run)[4:] == [[marks((3, "completed"))], [marks((1, "in-progress")), marks((1, "completed"))], []]
    assert not open_todos(board.read())


def test_plan_with_list_operations_is_followed_literally() -> None:
    prompt = "- `todo_operations('write', [{'id': 1, 'title': 'Mine', 'status': 'in-progress'}])`\n- `add(1)`"
    run = do("simulated:disciplined", prompt)
    assert [[call.name for call in round_.calls] for round_ in run.rounds[:3]] == [[TODO_TOOL], ["add"], []]
    assert "Wrote 1 todo" in run.rounds[2].text


def test_todo_tool_results_are_not_part_of_the_answer() -> None:
    assert "todo" not in reply(MODEL, 5).message.text


def test_blocked_repetitions_are_not_part_of_the_answer() -> None:
    run = do("simulated:looping?p=1&heed=0", "- `add(1)`\n- `add(2)`")
    assert any(
        record.result and record.result.error_code == "duplicate_call_blocked"
        for round_ in run.rounds
        for record in round_.records
    )
    tools = Agent(MODEL, tools=[add]).first_request(PROMPT).tools
    messages = [
        *run.messages[:9],
        Message("assistant", (Text("Step 2 of 2: add(2)."), ToolCall("add", {"a": 2}, "z"))),
        user("?"),
    ]
    text = ask(SimulatedModel(), *messages, tools=tools).message.text
    assert "duplicate" not in text


# Going on


def test_message_without_a_list_does_not_change_the_plan(subtests: pytest.Subtests) -> None:
    cases = ["Please continue", "Go on.", "You are doing fine, I think!"]
    for said in cases:
        with subtests.test(said):
            _, tools = conversation(3)
            spoke = whole(3, Message("assistant", (Text("I am going to look at step 3."),)), user(said))
            assert work(ask(MODEL, *spoke, tools=tools)) == [3]


def test_message_without_a_list_after_the_answer_gets_the_introduction() -> None:
    answer = ask(MODEL, *after_the_answer(said="Who are you?"), tools=conversation(0)[1])
    assert "not a language model" in answer.message.text


def test_introduction_explains_language_model_setup() -> None:
    text = ask(MODEL, *after_the_answer(said="Who are you?"), tools=conversation(0)[1]).message.text
    assert "set the key of its provider" in text and " anthropic:NAME" in text and " ollama:NAME" in text


def test_step_whose_call_was_stopped_earlier_is_blocked(subtests: pytest.Subtests) -> None:
    def survey(region: str) -> str:
        """Ask every customer."""
        raise RuntimeError("stopped")

    prompt = "- `add(1)`\n- Ask with `survey('North')`"
    first = Agent(MODEL, tools=[add, survey], guidance="matrix", max_rounds=3).run_sync(prompt)  # ends after the failed call
    assert [todo.status for todo in first.todos] == ["completed", "in-progress"]
    for tools in ([add], [add, survey]):
        with subtests.test(len(tools)):
            second = Agent(MODEL, tools=tools, guidance="matrix")
            run = second.run_sync("Leave out the survey.\n\n- Add once more `add(2)`", continue_from=first)
            asked = next(todo for todo in run.todos if "survey" in todo.title)
            assert asked.status == "blocked" and asked.blocked_reason


def test_impossible_steps_are_reported_as_omitted() -> None:
    prompt = (
        "- Add `add(1)` into `total`\n- A typo: `ad(2)`\n- Think about it\n- Not literal: `add(x)`\n"
        "- These:\n  - `add(3)` and `gone()`"
    )
    run = do("simulated:disciplined", prompt)
    why, left_out = run.text.partition("Left out")[2].split("\n\n")[:2]
    assert "one of my tools (`add`, `todo_operations`)" in why
    assert left_out.splitlines() == ["- ad(2)", "- Think about it", "- add(x)", "- gone()"]


def test_planner_told_of_open_todos_reads_the_list_first() -> None:
    answer = ask(MODEL, *after_the_answer(OPEN), tools=conversation(0)[1])
    assert answer.message.calls == (ToolCall(TODO_TOOL, {"operation": "read"}),)
    assert not ask(MODEL, *after_the_answer("Be good."), tools=conversation(0)[1]).message.calls
    assert not ask(MODEL, *after_the_answer(OPEN), tools=conversation(0, todos=False)[1]).message.calls


def test_own_finished_todos_left_open_are_completed_at_once() -> None:
    forgot = do("simulated:forgetful?p=1&heed=0", policy="minimal")
    agent = Agent("simulated:disciplined", tools=[add], guidance="off")
    run = agent.run_sync("Go on.", continue_from=forgot)
    assert of_the_list(run) == [[marks((1, "completed"), (2, "completed"), (3, "completed"))], []]
    assert run.text == "Done: 3 steps, as reported above."


def test_unreadable_list_is_not_requested_again() -> None:
    messages = after_the_answer(OPEN)
    tools = conversation(0)[1]
    answer = ask(MODEL, *messages, tools=tools)
    shown = Text(
        "duplicate_call_blocked: todo_operations was not run again.\n\nTodos (0 of 1 completed):\n9. [not-started] Old"
    )
    blocked = ToolResult("r", TODO_TOOL, (shown,), is_error=True, error_code="duplicate_call_blocked")
    assert not ask(MODEL, *messages, answer.message, Message("tool", (blocked, told(OPEN))), tools=tools).message.calls


def test_own_todo_reopened_by_others_is_completed_again() -> None:
    board = "1. [in-progress] One add(1)\n2. [completed] Two add(2)\n3. [not-started] Three add(3)"
    answer = ask(MODEL, *after_the_answer(OPEN, board), tools=conversation(0)[1])
    assert updates(answer) == [(3, "in-progress"), (1, "completed"), (3, "completed")] and not work(answer)


def test_todos_of_the_person_are_completed_or_blocked(snapshot: Snapshot) -> None:
    board = TodoBoard()
    agent = Agent("simulated:disciplined", tools=[add], todos=board)
    first = agent.run_sync("- `add(1)`")
    board.add("Call the office")
    board.add("Count on", "with `add(40)` and `add(41)`")
    board.add("And `add(42)`")
    run = agent.run_sync("- `add(2)`", continue_from=first)
    assert [round_.text for round_ in run.rounds[4:]] == snapshot
    assert [call.arguments["a"] for round_ in run.rounds for call in round_.calls if call.name == "add"] == [2, 40, 41, 42]
    assert [todo.status for todo in board.read()] == ["completed", "blocked", "completed", "completed", "completed"]
    assert "I have no tool for it, only `add`" in (board.read()[1].blocked_reason or "")
    assert run.stop_reason == "blocked"


def test_planner_without_a_plan_works_on_the_todo_board() -> None:
    board = TodoBoard(["Count `add(40)`", "Count `add(41)`"])
    run = do("simulated:disciplined", "Please do what is on the board.", todos=board, guidance="matrix")
    assert [call.arguments["a"] for round_ in run.rounds for call in round_.calls if call.name == "add"] == [40, 41]
    assert (run.stop_reason, run.text) == ("natural", "Done: nothing is left on the list.")


def test_ineffective_todo_update_is_not_repeated_forever() -> None:
    board = "1. [in-progress] One add(1)"
    messages = after_the_answer(OPEN, board)
    tools = conversation(0)[1]
    answer = ask(MODEL, *messages, tools=tools)
    assert updates(answer) == [(1, "completed")]
    still = ToolResult("u", TODO_TOOL, (Text(f"Not now.\n\nTodos (0 of 1 completed):\n{board}"),))
    assert not ask(MODEL, *messages, answer.message, Message("tool", (still,)), tools=tools).message.calls


def test_result_of_a_blocked_repetition_is_ignored() -> None:
    old = ToolResult(
        "r",
        TODO_TOOL,
        (Text("Todos (0 of 1 completed):\n9. [not-started] Old"),),
        is_error=True,
        error_code="duplicate_call_blocked",
    )
    _, tools = conversation(0)
    repeated = whole(3, Message("assistant", (ToolCall(TODO_TOOL, {"operation": "read"}, "r"),)), Message("tool", (old,)))
    assert updates(ask(MODEL, *repeated, tools=tools)) == [(2, "completed"), (3, "in-progress")]


def test_step_is_done_unless_each_of_its_calls_failed(subtests: pytest.Subtests) -> None:
    cases = {
        "failed": (["tool_error", "tool_error"], set()),
        "one worked": (["tool_error", None], {"Two"}),
        "one was a repetition": (["tool_error", "duplicate_call_blocked"], {"Two"}),
        "no result": ([], {"Two"}),
    }
    for name, (errors, done) in cases.items():
        with subtests.test(name):
            calls = [ToolCall("add", {"a": number}, str(number)) for number in range(2)]
            results = [
                ToolResult(str(n), "add", (), is_error=error is not None, error_code=error) for n, error in enumerate(errors)
            ]
            made = Message("assistant", (Text("Step 2 of 3: Two."), *calls))
            assert Observation(Request("", (user("Go."), made, Message("tool", (*results,))), ())).titles_done == done


def test_planner_reports_completion_in_workflow_mode() -> None:
    run = do("simulated:disciplined", policy=Matrix(workflow_mode=True), guidance="matrix")
    assert (run.stop_reason, run.text) == ("workflow_complete", "Done: 3 steps, as reported above.")
