"""Guides: guidance before a round, on constructed runs and as sent."""

from __future__ import annotations

import pytest
from ephemeral_text import MATRIX, OFF, TAG, own_set, reminder, stored_text
from run_builder import a_round, begun, guidance_of, said, todos_of
from run_checks import cells, ended, reasons
from scripted_runs import LONG_ANSWER, do, look, scripted, tool_run, work
from todo_calls import complete, mark, start, write

from agentnb.agent.agent import Agent
from agentnb.core.guidance import Guidance
from agentnb.core.log.events import TodosChanged
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.request import Request
from agentnb.detect.guidance_rules import CELLS
from agentnb.detect.run import Run
from agentnb.guidance import AlreadySaid, FourCells, GuidanceSet, TodoNews, intervention, workflow_reminder
from agentnb.guidance.guides import cell_of, where_it_stands
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import Matrix
from agentnb.tools.todos.board import TodoBoard

LOOK = ToolCall("work")
OPEN = todos_of("completed", "in-progress")
DONE = todos_of("completed", "completed")
SIX = [f"Story {number} is about the sea." for number in range(6)]


def ignored(times: int, cell: str = "todos_text", words: GuidanceSet = MATRIX) -> Run:
    """Return a run in a new round after ignoring this cell's guidance this many times."""
    facts = [*a_round(0, "A."), *(fact for n in range(1, times + 1) for fact in a_round(n, "B.", guidance=[guidance_of(cell)]))]
    return tool_run(*facts, *begun(times + 1, "open_todos"), todos=OPEN, words=words)


# The cell


@pytest.mark.req("R0.14", "R0.23")
def test_cell_depends_on_open_todos_and_previous_tools(subtests: pytest.Subtests) -> None:
    for todos, calls, cell in [
        (OPEN, True, "todos_tools"),
        (OPEN, False, "todos_text"),
        (DONE, True, "tools"),
        ((), True, "tools"),
        (DONE, False, "text"),
    ]:
        with subtests.test(todos=todos, calls=calls, cell=cell):
            run = tool_run(*a_round(0, *(["I look.", LOOK] if calls else ["Hm."])), *begun(1), todos=todos)
            assert cell_of(run) == cell
            guidance = FourCells()(run)
            assert guidance == Guidance("matrix", cell, MATRIX.parts[cell], 1, "tool_results", MATRIX.version)


@pytest.mark.req("R0.23")
def test_only_the_previous_round_decides_the_cell() -> None:
    assert cell_of(tool_run(*a_round(0, LOOK), *a_round(1, "Hm."), *begun(2))) == "text"
    assert cell_of(tool_run(*a_round(0, "Hm."), *a_round(1, LOOK), *begun(2))) == "tools"


@pytest.mark.req("R0.19", "K0.8")
def test_blocked_todos_count_as_open_and_capitalized_completed_as_done() -> None:
    assert cell_of(tool_run(*a_round(0, "Hm."), *begun(1), todos=todos_of("blocked"))) == "todos_text"
    assert cell_of(tool_run(*a_round(0, "Hm."), *begun(1), todos=todos_of("Completed"))) == "text"  # type: ignore[arg-type]


@pytest.mark.req("K0.4", "R0.22")
def test_first_round_has_no_guidance() -> None:
    assert FourCells()(tool_run(*begun(0), todos=OPEN)) is None
    run, model = scripted(write("Write a story"), start(1), do(1), complete(1), "Done.")
    assert run.rounds[0].guidance == ()
    assert reminder(model.requests[0]) == "Round 1 of 50."


@pytest.mark.req("R0.22")
def test_every_later_round_with_open_todos_has_guidance() -> None:
    run, _ = scripted(write("One", "Two"), start(1), do(1), complete(1), "Hm.", start(2), do(2), complete(2), "Done.")
    assert [[cell for cell, _ in guidance if cell in CELLS] for guidance in cells(run)] == [
        [],
        ["todos_tools"],
        ["todos_tools"],
        ["todos_tools"],
        ["todos_tools"],
        ["todos_text"],
        ["todos_tools"],
        ["todos_tools"],
        ["tools"],
    ]


def test_model_without_tools_is_not_told_to_use_them() -> None:
    assert FourCells()(tool_run(*a_round(0, "Hm."), *begun(1), tools=())) is None
    run, _ = scripted("[CONTINUE]", "Done.", tools=[])
    assert cells(run) == [[], []]


def test_cell_with_empty_text_adds_nothing(subtests: pytest.Subtests) -> None:
    for cell in CELLS:
        with subtests.test(cell=cell):
            facts = [*a_round(0, *(["x", LOOK] if "tools" in cell else ["Hm."])), *begun(1)]
            run = tool_run(*facts, todos=OPEN if "todos" in cell else (), words=own_set(**{cell: ""}))
            assert cell_of(run) == cell
            assert FourCells()(run) is None


def test_guidance_trigger_is_the_reason_of_the_round() -> None:
    guidance = FourCells()(tool_run(*a_round(0, "Hm."), *begun(1, "open_todos"), todos=OPEN))
    assert guidance is not None and guidance.trigger == "open_todos"


# Levels


@pytest.mark.req("R0.79")
def test_every_two_ignored_messages_raise_the_level(subtests: pytest.Subtests) -> None:
    for times, level in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 3), (9, 3)]:
        with subtests.test(times=times, level=level):
            guidance = FourCells()(ignored(times))
            assert guidance is not None and guidance.level == level
            prefix = {1: "", 2: "stronger", 3: "strongest"}[level]
            assert guidance.text.endswith(MATRIX.parts["todos_text"])
            assert (guidance.text == MATRIX.parts["todos_text"]) == (level == 1)
            if prefix:
                assert guidance.text.startswith(MATRIX.parts[prefix].replace("{{ ignored }}", str(times)))


@pytest.mark.req("R0.79")
def test_followed_guidance_resets_the_level() -> None:
    facts = [
        *a_round(0, "A."),
        *a_round(1, "B.", guidance=[guidance_of("text")]),
        *a_round(2, "C.", guidance=[guidance_of("text")]),
    ]
    facts += a_round(3, LOOK, guidance=[guidance_of("text")])
    guidance = FourCells()(tool_run(*facts, *begun(4)))
    assert guidance is not None and (guidance.cell, guidance.level) == ("tools", 1)


@pytest.mark.req("R0.79")
def test_other_and_unjudged_guidance_keeps_the_level() -> None:
    facts = [*a_round(0, "A."), *a_round(1, "B.", guidance=[guidance_of("text")])]
    facts += a_round(2, "C.", guidance=[guidance_of("intervention"), guidance_of("workflow"), guidance_of("already_said")])
    assert FourCells()(tool_run(*facts, *begun(3))).level == 1  # type: ignore[union-attr]
    assert FourCells()(tool_run(*facts, *a_round(3, "D.", guidance=[guidance_of("text")]), *begun(4))).level == 2  # type: ignore[union-attr]


@pytest.mark.req("R0.79")
def test_user_message_resets_the_level() -> None:
    facts = [
        *a_round(0, "A."),
        *a_round(1, "B.", guidance=[guidance_of("text")]),
        *a_round(2, "C.", guidance=[guidance_of("text")]),
    ]
    assert FourCells()(tool_run(*facts, said("Well?"), *begun(3))).level == 1  # type: ignore[union-attr]


@pytest.mark.req("R0.79")
def test_level_rises_even_if_the_set_has_no_text() -> None:
    guidance = FourCells()(ignored(2, words=own_set(stronger="")))
    assert guidance is not None
    assert (guidance.level, guidance.text) == (2, MATRIX.parts["todos_text"])


@pytest.mark.req("R0.79")
def test_level_rises_and_falls_over_a_run() -> None:
    run, model = scripted(
        *["[CONTINUE]"] * 7, do(1), "[CONTINUE]", "Done.", policy=Matrix(workflow_cap=9), guidance=own_set(tools="")
    )
    assert [[level for _, level in guidance] for guidance in cells(run)] == [[], [1], [1], [2], [2], [3], [3], [3], [], [1]]
    assert MATRIX.parts["stronger"].replace("{{ ignored }}", "2") in reminder(model.requests[3])
    assert MATRIX.parts["strongest"].replace("{{ ignored }}", "4") in reminder(model.requests[5])
    assert "in a row" not in reminder(model.requests[9])


# Repeated answers


@pytest.mark.req("R0.81")
def test_repeated_answer_names_its_first_round() -> None:
    run = tool_run(*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER.replace("three", "four")), *begun(2))
    guidance = AlreadySaid()(run)
    assert guidance == Guidance("matrix", "already_said", MATRIX.parts["already_said"], 1, "repeats rounds[0]", MATRIX.version)


@pytest.mark.req("R0.81")
@pytest.mark.parametrize("second", ["Another answer, about something else, that nobody gave before.", LONG_ANSWER[:39]])
def test_new_or_short_answer_is_not_a_repeat(second: str) -> None:
    assert AlreadySaid()(tool_run(*a_round(0, second[:39]), *a_round(1, second), *begun(2))) is None
    assert AlreadySaid()(tool_run(*a_round(0, LONG_ANSWER), *a_round(1, second), *begun(2))) is None


@pytest.mark.req("R0.81")
def test_repeat_is_reported_once_and_not_in_round_one() -> None:
    assert AlreadySaid()(tool_run(*begun(0))) is None
    facts = [*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER), *a_round(2, LOOK)]
    assert AlreadySaid()(tool_run(*facts, *begun(3))) is None


@pytest.mark.req("R0.81")
def test_equal_text_beside_a_call_is_not_a_repeat() -> None:
    assert AlreadySaid()(tool_run(*a_round(0, LONG_ANSWER, LOOK), *a_round(1, LONG_ANSWER, LOOK), *begun(2))) is None


def test_repeat_notice_with_empty_text_adds_nothing() -> None:
    facts = [*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER), *begun(2)]
    assert AlreadySaid()(tool_run(*facts, words=own_set(already_said=""))) is None


# Outside changes of the list


@pytest.mark.req("R0.44")
def test_externally_changed_list_is_shown_until_sent() -> None:
    changed = (TodosChanged, {"todos": todos_of("completed"), "by": "outside"})
    news = TodoNews()
    hung = tool_run(*begun(0), todos=OPEN)
    guidance = news(hung)
    assert guidance is not None
    assert (guidance.cell, guidance.level, guidance.trigger) == ("todo_list", 1, "there at the start")
    assert "2. [in-progress] Write story 2" in guidance.text
    assert news(tool_run(*begun(0))) is None
    assert news(tool_run(*a_round(0, "Hm."), *begun(1), todos=OPEN)) is None
    assert news(tool_run(*a_round(0, "Hm."), changed, *begun(1))) is not None
    assert news(tool_run(*a_round(0, "Hm."), changed, *a_round(1, "Hm."), *begun(2))) is None
    assert news(tool_run(*begun(0), todos=OPEN, words=own_set(todo_list=""))) is None


@pytest.mark.req("R0.44")
def test_list_change_by_the_model_is_not_announced() -> None:
    assert TodoNews()(tool_run(*a_round(0, start(1), after=OPEN), *begun(1))) is None
    run, _ = scripted(write("One"), start(1), complete(1), "Done.")
    assert not any(cell == "todo_list" for guidance in cells(run) for cell, _ in guidance)


@pytest.mark.req("R0.44", "R0.82")
@pytest.mark.parametrize("policy", ["matrix", "minimal"])
def test_list_changes_appear_in_the_next_request_unjudged(policy: str) -> None:
    board = TodoBoard(["One"])

    def adding(request: Request) -> ToolCall:
        board.add("Two")
        return do(1)

    run, model = scripted(adding, [start(1), complete(1), start(2), complete(2)], "Done.", todos=board, policy=policy)
    assert ["todo_list" in [cell for cell, _ in guidance] for guidance in cells(run)] == [True, True, False]
    assert "1. [not-started] One\n2. [not-started] Two" in reminder(model.requests[1])
    assert [round.followed[0].followed for round in run.rounds[:2]] == [None, None]
    assert run.rounds[0].guidance[0].cell == run.rounds[1].guidance[0].cell == "todo_list"


# Interventions and workflow mode


@pytest.mark.req("R0.47", "K0.10")
def test_intervention_of_a_level_uses_its_text(subtests: pytest.Subtests) -> None:
    for level, part in [(1, "reminder"), (2, "warning"), (3, "final_warning"), (4, "final_warning")]:
        with subtests.test(level=level, part=part):
            (guidance,) = intervention(tool_run(*a_round(0, "Hm."), todos=OPEN), "open_todos", level)
            assert (guidance.cell, guidance.level, guidance.trigger, guidance.set) == (
                "intervention",
                min(level, 3),
                "open_todos",
                "matrix",
            )
            assert guidance.text.startswith(MATRIX.parts[part].split("{{")[0])
            assert 'todo 2, "Write story 2"' in guidance.text


@pytest.mark.req("R0.37")
def test_workflow_mode_uses_the_text_of_the_set() -> None:
    (guidance,) = workflow_reminder(tool_run(*a_round(0, "Hm.")))
    assert (guidance.cell, guidance.text, guidance.trigger) == ("workflow", MATRIX.parts["workflow"], "workflow_mode")


def test_set_without_text_intervenes_silently() -> None:
    without_warning = tool_run(*a_round(0, "Hm."), todos=OPEN, words=own_set(warning=""))
    assert intervention(without_warning, "open_todos", 2) == ()
    silent = tool_run(*a_round(0, "Hm."), todos=OPEN, words=OFF)
    assert workflow_reminder(silent) == ()
    assert where_it_stands(silent) == ""


# Whole runs


@pytest.mark.req("R0.20", "R0.24", "R0.50", "K0.6")
def test_each_request_has_one_reminder_in_fixed_order() -> None:
    run, model = scripted(
        write("One"), LONG_ANSWER, LONG_ANSWER, start(1), do(1), complete(1), "That is all.", policy=Matrix(workflow_mode=False)
    )
    said = [reminder(request) for request in model.requests]
    assert [text.splitlines()[-1] for text in said] == [f"Round {number} of 50." for number in range(1, 8)]
    assert cells(run)[3] == [("intervention", 2), ("already_said", 1), ("todos_text", 2)]
    in_order = [said[3].index(guidance.text) for guidance in run.rounds[3].guidance]
    assert in_order == sorted(in_order)
    assert [said[n] for n in range(7)] == [
        "\n\n".join([*(guidance.text for guidance in a_round.guidance), a_round.note]) for a_round in run.rounds
    ]
    assert TAG not in stored_text(run)
    assert "GUIDANCE" not in stored_text(run)
    assert "Round " not in stored_text(run)


@pytest.mark.req("R0.20")
def test_ephemeral_text_is_only_in_its_own_request() -> None:
    seen: list[list[str]] = []

    def looked(request: Request) -> str:
        seen.append([repr(message) for message in request.messages])
        return f"[CONTINUE]\n{SIX[len(seen)]}" if len(seen) < 4 else "Done."

    _, model = scripted(looked, looked, looked, looked)
    assert [[repr(message) for message in request.messages] for request in model.requests] == seen
    assert [sum(TAG in text for text in texts) for texts in seen] == [1, 1, 1, 1]
    assert [TAG in texts[-1] for texts in seen] == [True] * 4


@pytest.mark.req("R0.20")
def test_conversation_is_the_same_with_and_without_guidance() -> None:
    replies = (write("One"), "Hm.", start(1), do(1), complete(1), "Done.")
    spoken, _ = scripted(*replies)
    silent, _ = scripted(*replies, guidance="off")
    assert [message.role for message in spoken.messages] == [message.role for message in silent.messages]
    assert stored_text(spoken) == stored_text(silent)


@pytest.mark.req("R0.36", "R0.53")
def test_set_off_adds_no_text_but_policies_still_decide() -> None:
    run, model = scripted(write("One"), *SIX, guidance="off")
    assert all(TAG not in repr(request.messages) for request in model.requests)
    assert cells(run) == [[]] * 7
    assert reasons(run)[2:] == ["open_todos"] * 5
    assert ended(run) == ("stopped", "todo_intervention_exhausted")


@pytest.mark.req("R0.30", "K0.5")
def test_requests_never_force_a_tool_call() -> None:
    run, model = scripted(write("One"), *SIX[:3], start(1), do(1), complete(1), "Done.")
    assert [request.settings for request in model.requests] == [{}] * 8
    assert [a_round.is_text_only for a_round in run.rounds] == [False, True, True, True, False, False, False, True]


@pytest.mark.req("R0.21")
def test_reminder_is_never_part_of_an_assistant_message() -> None:
    _, model = scripted("[CONTINUE]", "Hm.\n[CONTINUE]", mark(9, "completed"), "Done.")
    assert [request.messages[-1].role for request in model.requests] == ["user", "user", "user", "tool"]


@pytest.mark.req("R0.24")
def test_first_request_preview_equals_the_request_sent() -> None:
    model = ScriptedModel(["Done."])
    agent = Agent(model, tools=[work], max_rounds=7)
    shown = agent.first_request("go")
    agent.run_sync("go")
    assert reminder(shown) == reminder(model.requests[0]) == "Round 1 of 7."
    assert shown == model.requests[0]


@pytest.mark.parametrize("reason", ["max_tokens", "pause_turn"])
def test_continued_reply_gets_no_guidance_cell(reason: str) -> None:
    cut = Reply(Message("assistant", (Text("It is half a sen"),)), stop_reason=reason)
    model = ScriptedModel([ToolCall("look"), cut, "tence."])

    run = Agent(model, tools=[look]).run_sync("go")
    assert [round.reason for round in run.rounds][-1] in ("reply_cut", "pause_turn")
    assert [guidance.cell for guidance in run.rounds[1].guidance] == ["tools"] and run.rounds[2].guidance == ()
