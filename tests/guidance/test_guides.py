"""Guides: what is said before a round, alone on a run by hand and as the model sees it."""

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
    """A run in a new round, in which guidance of this cell was not followed so many times in a row."""
    facts = [*a_round(0, "A."), *(fact for n in range(1, times + 1) for fact in a_round(n, "B.", guidance=[guidance_of(cell)]))]
    return tool_run(*facts, *begun(times + 1, "open_todos"), todos=OPEN, words=words)


# The cell


@pytest.mark.req("R0.14", "R0.23")
def test_the_cell_is_chosen_by_open_todos_and_the_tools_of_the_round_before(subtests: pytest.Subtests) -> None:
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
            said = FourCells()(run)
            assert said == Guidance("matrix", cell, MATRIX.parts[cell], 1, "tool_results", MATRIX.version)


@pytest.mark.req("R0.23")
def test_only_the_round_before_counts_for_the_cell() -> None:
    assert cell_of(tool_run(*a_round(0, LOOK), *a_round(1, "Hm."), *begun(2))) == "text"
    assert cell_of(tool_run(*a_round(0, "Hm."), *a_round(1, LOOK), *begun(2))) == "tools"


@pytest.mark.req("R0.19", "K0.8")
def test_blocked_todos_are_open_and_an_odd_spelling_of_completed_is_not() -> None:
    assert cell_of(tool_run(*a_round(0, "Hm."), *begun(1), todos=todos_of("blocked"))) == "todos_text"
    assert cell_of(tool_run(*a_round(0, "Hm."), *begun(1), todos=todos_of("Completed"))) == "text"  # type: ignore[arg-type]


@pytest.mark.req("K0.4", "R0.22")
def test_nothing_is_said_in_the_first_round() -> None:
    assert FourCells()(tool_run(*begun(0), todos=OPEN)) is None
    run, model = scripted(write("Write a story"), start(1), do(1), complete(1), "Done.")
    assert run.rounds[0].guidance == ()
    assert reminder(model.requests[0]) == "Round 1 of 50."


@pytest.mark.req("R0.22")
def test_something_is_said_in_every_later_round_while_todos_are_open() -> None:
    run, _ = scripted(write("One", "Two"), start(1), do(1), complete(1), "Hm.", start(2), do(2), complete(2), "Done.")
    assert [[cell for cell, _ in said if cell in CELLS] for said in cells(run)] == [
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


def test_a_model_without_tools_is_not_told_to_use_them() -> None:
    assert FourCells()(tool_run(*a_round(0, "Hm."), *begun(1), tools=())) is None
    run, _ = scripted("[CONTINUE]", "Done.", tools=[])
    assert cells(run) == [[], []]


def test_a_cell_without_words_says_nothing(subtests: pytest.Subtests) -> None:
    for cell in CELLS:
        with subtests.test(cell=cell):
            facts = [*a_round(0, *(["x", LOOK] if "tools" in cell else ["Hm."])), *begun(1)]
            run = tool_run(*facts, todos=OPEN if "todos" in cell else (), words=own_set(**{cell: ""}))
            assert cell_of(run) == cell
            assert FourCells()(run) is None


def test_the_trigger_is_why_the_round_was_begun() -> None:
    said = FourCells()(tool_run(*a_round(0, "Hm."), *begun(1, "open_todos"), todos=OPEN))
    assert said is not None and said.trigger == "open_todos"


# Strength


@pytest.mark.req("R0.79")
def test_two_in_a_row_not_followed_make_it_stronger_to_three_at_most(subtests: pytest.Subtests) -> None:
    for times, level in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 3), (9, 3)]:
        with subtests.test(times=times, level=level):
            said = FourCells()(ignored(times))
            assert said is not None and said.level == level
            prefix = {1: "", 2: "stronger", 3: "strongest"}[level]
            assert said.text.endswith(MATRIX.parts["todos_text"])
            assert (said.text == MATRIX.parts["todos_text"]) == (level == 1)
            if prefix:
                assert said.text.startswith(MATRIX.parts[prefix].replace("{{ ignored }}", str(times)))


@pytest.mark.req("R0.79")
def test_followed_guidance_makes_it_weak_again() -> None:
    facts = [
        *a_round(0, "A."),
        *a_round(1, "B.", guidance=[guidance_of("text")]),
        *a_round(2, "C.", guidance=[guidance_of("text")]),
    ]
    facts += a_round(3, LOOK, guidance=[guidance_of("text")])
    said = FourCells()(tool_run(*facts, *begun(4)))
    assert said is not None and (said.cell, said.level) == ("tools", 1)


@pytest.mark.req("R0.79")
def test_guidance_of_other_kinds_and_what_was_not_judged_leave_the_strength_as_it_is() -> None:
    facts = [*a_round(0, "A."), *a_round(1, "B.", guidance=[guidance_of("text")])]
    facts += a_round(2, "C.", guidance=[guidance_of("intervention"), guidance_of("workflow"), guidance_of("already_said")])
    assert FourCells()(tool_run(*facts, *begun(3))).level == 1  # type: ignore[union-attr]
    assert FourCells()(tool_run(*facts, *a_round(3, "D.", guidance=[guidance_of("text")]), *begun(4))).level == 2  # type: ignore[union-attr]


@pytest.mark.req("R0.79")
def test_a_word_of_the_person_makes_it_weak_again() -> None:
    facts = [
        *a_round(0, "A."),
        *a_round(1, "B.", guidance=[guidance_of("text")]),
        *a_round(2, "C.", guidance=[guidance_of("text")]),
    ]
    assert FourCells()(tool_run(*facts, said("Well?"), *begun(3))).level == 1  # type: ignore[union-attr]


@pytest.mark.req("R0.79")
def test_a_set_may_grow_stronger_without_words_for_it() -> None:
    said = FourCells()(ignored(2, words=own_set(stronger="")))
    assert said is not None
    assert (said.level, said.text) == (2, MATRIX.parts["todos_text"])


@pytest.mark.req("R0.79")
def test_the_strength_rises_and_falls_in_a_whole_run() -> None:
    run, model = scripted(
        *["[CONTINUE]"] * 7, do(1), "[CONTINUE]", "Done.", policy=Matrix(workflow_cap=9), guidance=own_set(tools="")
    )
    assert [[level for _, level in said] for said in cells(run)] == [[], [1], [1], [2], [2], [3], [3], [3], [], [1]]
    assert MATRIX.parts["stronger"].replace("{{ ignored }}", "2") in reminder(model.requests[3])
    assert MATRIX.parts["strongest"].replace("{{ ignored }}", "4") in reminder(model.requests[5])
    assert "in a row" not in reminder(model.requests[9])


# Already said


@pytest.mark.req("R0.81")
def test_a_repeated_answer_is_told_where_it_was_said_first() -> None:
    run = tool_run(*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER.replace("three", "four")), *begun(2))
    said = AlreadySaid()(run)
    assert said == Guidance("matrix", "already_said", MATRIX.parts["already_said"], 1, "repeats rounds[0]", MATRIX.version)


@pytest.mark.req("R0.81")
@pytest.mark.parametrize("second", ["Another answer, about something else, that nobody gave before.", LONG_ANSWER[:39]])
def test_a_new_or_a_short_answer_is_not(second: str) -> None:
    assert AlreadySaid()(tool_run(*a_round(0, second[:39]), *a_round(1, second), *begun(2))) is None
    assert AlreadySaid()(tool_run(*a_round(0, LONG_ANSWER), *a_round(1, second), *begun(2))) is None


@pytest.mark.req("R0.81")
def test_it_is_said_once_for_a_repeat_and_not_with_the_first_round() -> None:
    assert AlreadySaid()(tool_run(*begun(0))) is None
    facts = [*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER), *a_round(2, LOOK)]
    assert AlreadySaid()(tool_run(*facts, *begun(3))) is None


@pytest.mark.req("R0.81")
def test_the_same_words_beside_a_call_are_no_repeated_answer() -> None:
    assert AlreadySaid()(tool_run(*a_round(0, LONG_ANSWER, LOOK), *a_round(1, LONG_ANSWER, LOOK), *begun(2))) is None


def test_without_words_for_it_nothing_is_said_of_a_repeat() -> None:
    facts = [*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER), *begun(2)]
    assert AlreadySaid()(tool_run(*facts, words=own_set(already_said=""))) is None


# The list, where others have changed it


@pytest.mark.req("R0.44")
def test_a_list_that_others_hung_or_changed_is_shown_until_the_model_has_been_sent_it() -> None:
    changed = (TodosChanged, {"todos": todos_of("completed"), "by": "outside"})
    news = TodoNews()
    hung = tool_run(*begun(0), todos=OPEN)
    said = news(hung)
    assert said is not None
    assert (said.cell, said.level, said.trigger) == ("todo_list", 1, "there at the start")
    assert "2. [in-progress] Write story 2" in said.text
    assert news(tool_run(*begun(0))) is None
    assert news(tool_run(*a_round(0, "Hm."), *begun(1), todos=OPEN)) is None
    assert news(tool_run(*a_round(0, "Hm."), changed, *begun(1))) is not None
    assert news(tool_run(*a_round(0, "Hm."), changed, *a_round(1, "Hm."), *begun(2))) is None
    assert news(tool_run(*begun(0), todos=OPEN, words=own_set(todo_list=""))) is None


@pytest.mark.req("R0.44")
def test_what_the_model_changes_itself_is_no_news_to_it() -> None:
    assert TodoNews()(tool_run(*a_round(0, start(1), after=OPEN), *begun(1))) is None
    run, _ = scripted(write("One"), start(1), complete(1), "Done.")
    assert not any(cell == "todo_list" for said in cells(run) for cell, _ in said)


@pytest.mark.req("R0.44", "R0.82")
@pytest.mark.parametrize("policy", ["matrix", "minimal"])
def test_news_of_the_list_come_with_the_next_request_and_ask_for_nothing(policy: str) -> None:
    board = TodoBoard(["One"])

    def adding(request: Request) -> ToolCall:
        board.add("Two")
        return do(1)

    run, model = scripted(adding, [start(1), complete(1), start(2), complete(2)], "Done.", todos=board, policy=policy)
    assert ["todo_list" in [cell for cell, _ in said] for said in cells(run)] == [True, True, False]
    assert "1. [not-started] One\n2. [not-started] Two" in reminder(model.requests[1])
    assert [one.followed[0].followed for one in run.rounds[:2]] == [None, None]
    assert run.rounds[0].guidance[0].cell == run.rounds[1].guidance[0].cell == "todo_list"


# Interventions and workflow mode


@pytest.mark.req("R0.47", "K0.10")
def test_an_intervention_of_a_level_says_the_words_of_that_level(subtests: pytest.Subtests) -> None:
    for level, part in [(1, "reminder"), (2, "warning"), (3, "final_warning"), (4, "final_warning")]:
        with subtests.test(level=level, part=part):
            (said,) = intervention(tool_run(*a_round(0, "Hm."), todos=OPEN), "open_todos", level)
            assert (said.cell, said.level, said.trigger, said.set) == ("intervention", min(level, 3), "open_todos", "matrix")
            assert said.text.startswith(MATRIX.parts[part].split("{{")[0])
            assert 'todo 2, "Write story 2"' in said.text


@pytest.mark.req("R0.37")
def test_workflow_mode_is_said_in_the_words_of_the_set() -> None:
    (said,) = workflow_reminder(tool_run(*a_round(0, "Hm.")))
    assert (said.cell, said.text, said.trigger) == ("workflow", MATRIX.parts["workflow"], "workflow_mode")


def test_a_set_without_words_intervenes_in_silence() -> None:
    without_warning = tool_run(*a_round(0, "Hm."), todos=OPEN, words=own_set(warning=""))
    assert intervention(without_warning, "open_todos", 2) == ()
    silent = tool_run(*a_round(0, "Hm."), todos=OPEN, words=OFF)
    assert workflow_reminder(silent) == ()
    assert where_it_stands(silent) == ""


# As the model sees it


@pytest.mark.req("R0.20", "R0.24", "R0.50", "K0.6")
def test_each_request_holds_one_reminder_the_messages_none_and_the_order_is_fixed() -> None:
    run, model = scripted(
        write("One"), LONG_ANSWER, LONG_ANSWER, start(1), do(1), complete(1), "That is all.", policy=Matrix(workflow_mode=False)
    )
    said = [reminder(request) for request in model.requests]
    assert [text.splitlines()[-1] for text in said] == [f"Round {number} of 50." for number in range(1, 8)]
    assert cells(run)[3] == [("intervention", 2), ("already_said", 1), ("todos_text", 2)]
    in_order = [said[3].index(one.text) for one in run.rounds[3].guidance]
    assert in_order == sorted(in_order)
    assert [said[n] for n in range(7)] == [
        "\n\n".join([*(one.text for one in a_round.guidance), a_round.note]) for a_round in run.rounds
    ]
    assert TAG not in stored_text(run)
    assert "GUIDANCE" not in stored_text(run)
    assert "Round " not in stored_text(run)


@pytest.mark.req("R0.20")
def test_what_was_said_in_passing_stands_in_no_later_request_and_stays_in_the_one_it_was_sent_with() -> None:
    seen: list[list[str]] = []

    def looked(request: Request) -> str:
        seen.append([repr(message) for message in request.messages])
        return f"[CONTINUE]\n{SIX[len(seen)]}" if len(seen) < 4 else "Done."

    _, model = scripted(looked, looked, looked, looked)
    assert [[repr(message) for message in request.messages] for request in model.requests] == seen
    assert [sum(TAG in text for text in texts) for texts in seen] == [1, 1, 1, 1]
    assert [TAG in texts[-1] for texts in seen] == [True] * 4


@pytest.mark.req("R0.20")
def test_the_conversation_is_the_same_with_and_without_guidance() -> None:
    replies = (write("One"), "Hm.", start(1), do(1), complete(1), "Done.")
    spoken, _ = scripted(*replies)
    silent, _ = scripted(*replies, guidance="off")
    assert [message.role for message in spoken.messages] == [message.role for message in silent.messages]
    assert stored_text(spoken) == stored_text(silent)


@pytest.mark.req("R0.36", "R0.53")
def test_off_says_nothing_and_the_policies_still_decide() -> None:
    run, model = scripted(write("One"), *SIX, guidance="off")
    assert all(TAG not in repr(request.messages) for request in model.requests)
    assert cells(run) == [[]] * 7
    assert reasons(run)[2:] == ["open_todos"] * 5
    assert ended(run) == ("stopped", "todo_intervention_exhausted")


@pytest.mark.req("R0.30", "K0.5")
def test_no_request_forces_a_tool_call() -> None:
    run, model = scripted(write("One"), *SIX[:3], start(1), do(1), complete(1), "Done.")
    assert [request.settings for request in model.requests] == [{}] * 8
    assert [a_round.is_text_only for a_round in run.rounds] == [False, True, True, True, False, False, False, True]


@pytest.mark.req("R0.21")
def test_the_reminder_is_never_part_of_an_assistant_message() -> None:
    _, model = scripted("[CONTINUE]", "Hm.\n[CONTINUE]", mark(9, "completed"), "Done.")
    assert [request.messages[-1].role for request in model.requests] == ["user", "user", "user", "tool"]


@pytest.mark.req("R0.24")
def test_the_first_request_shown_beforehand_is_the_one_that_is_sent() -> None:
    model = ScriptedModel(["Done."])
    agent = Agent(model, tools=[work], max_rounds=7)
    shown = agent.first_request("go")
    agent.run_sync("go")
    assert reminder(shown) == reminder(model.requests[0]) == "Round 1 of 7."
    assert shown == model.requests[0]


@pytest.mark.parametrize("reason", ["max_tokens", "pause_turn"])
def test_where_the_model_goes_on_in_the_middle_of_a_sentence_no_cell_speaks(reason: str) -> None:
    cut = Reply(Message("assistant", (Text("It is half a sen"),)), stop_reason=reason)
    model = ScriptedModel([ToolCall("look"), cut, "tence."])

    run = Agent(model, tools=[look]).run_sync("go")
    assert [one.reason for one in run.rounds][-1] in ("reply_cut", "pause_turn")
    assert [guidance.cell for guidance in run.rounds[1].guidance] == ["tools"] and run.rounds[2].guidance == ()
