"""Contents of each plot of runs, and its notes on unknown values."""

from __future__ import annotations

import pytest
from plotted_runs import WINDOW, eventful, guided, names, widths, without_times, words
from run_builder import RunBuilder, called, todo, todos_of

from agentnb import Run, plots
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment
from agentnb.core.messages import Message, Text
from agentnb.core.run.rounds import CONTEXT_TOKENS
from agentnb.core.usage import Usage
from agentnb.plots.drawing.several import Curve, medians
from agentnb.plots.tokens import round_tokens, window_of


@pytest.fixture(scope="module")
def run() -> Run:
    return eventful()


def used(run_id: str, *usages: Usage, **opening: object) -> Run:
    """Build a run with this usage by round."""
    builder = RunBuilder(run_id=run_id, **opening)
    for index, usage in enumerate(usages):
        builder.add(e.RoundStarted, index=index, reason="prompt")
        builder.add(e.ModelReplied, message=Message("assistant", (Text("Well."),)), usage=usage)
        builder.add(e.RoundFinished, index=index, status="success")
    return builder.run


# The timeline


def test_timeline_has_lanes_for_model_tools_and_waits(run: Run) -> None:
    figure = plots.timeline(run)
    waits = ["waiting for you", "paused by you", "message from you", "loop found"]
    first = ["model", "side call to a model", "compaction", "wait to retry"]
    assert names(figure) == [*first, "look", "fail", "ask_person", *waits]
    bars = {found.get_label(): found for found in figure.axes[0].collections}
    assert {"model", "tool", "failed (\N{MULTIPLICATION SIGN})", "waiting for you"} <= set(bars)
    (question,) = bars["waiting for you"].get_paths()
    assert (question.vertices[:, 0].min(), question.vertices[:, 0].max()) == (21.0, 27.0)
    said = words(figure)
    assert "seconds since the run began" in said and "Run …ab12cd34 (anthropic:m): 6 rounds, 6 tool calls" in said
    assert {"1", "3", "6", "round"} <= set(said)


def test_timeline_marks_missing_times(run: Run) -> None:
    figure = plots.timeline(without_times(run))
    assert "No times recorded: rounds in order, each drawn equally wide" in words(figure)
    assert figure.axes[0].get_xlabel() == "round" and list(figure.axes[0].get_xticks()) == [1, 2, 3, 4, 5, 6]
    assert not any("seconds" in text for text in words(figure))


def test_rarely_called_tools_share_a_lane() -> None:
    told = RunBuilder().round(*[called(f"t{number}") for number in range(20)], called("t3"))
    found = names(plots.timeline(told.run))
    assert len(found) == 16 and found[0] == "model" and found[-1] == "and 6 others" and "t3" in found


# Guidance


def test_guidance_is_drawn_by_cell_and_level_with_followed_shares() -> None:
    figure = plots.guidance([guided(), guided("r-2")])
    assert names(figure) == ["tools, level 1", "intervention, level 2", "todo_list, level 1"]
    assert (widths(figure, "followed"), widths(figure, "ignored"), widths(figure, "not judged")) == ([4, 2], [2, 2], [2])
    said = words(figure)
    assert {"4 of 6 (67%)", "2 of 4 (50%)", "not judged", "n = 2 runs: 12 pieces of guidance"} <= set(said)


# Todos


def test_open_todos_are_drawn_as_steps_with_change_authors(run: Run) -> None:
    axes = plots.todos(run).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines["open todos"].get_xdata()) == [0, 1, 2, 3, 4, 5, 6]
    assert list(lines["open todos"].get_ydata()) == [3, 2, 2, 2, 2, 0, 0]
    assert lines["open todos"].get_drawstyle() == "steps-post"
    assert list(lines["all todos"].get_ydata()) == [3] * 7
    assert list(lines["changed by the model"].get_xdata()) == [1]
    assert list(lines["changed by you or your code"].get_xdata()) == [5]
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["start", "1"]


def test_round_with_a_todo_violation_is_marked() -> None:
    told = RunBuilder().round(called("todo_operations"), after=(todo(1, "not-started"),)).round(called("work"))
    figure = plots.todos(told.run)
    broken = [line for line in figure.axes[0].lines if line.get_label() == "todo violation"]
    assert [list(line.get_xdata()) for line in broken] == [[2]]


def test_each_run_is_a_line_and_todoless_runs_are_counted() -> None:
    first = RunBuilder(run_id="r-1").round(called("a"), after=todos_of("completed", "in-progress")).run
    second = RunBuilder(run_id="r-2").round("x").round(called("a"), after=todos_of("in-progress")).run
    figure = plots.todos([first, second, RunBuilder(run_id="r-3").round("x").run])
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].lines] == [([1], [1]), ([2], [1])]
    assert {"n = 2 runs", "Left out: 1 run without todos"} <= set(words(figure))


def test_many_runs_are_drawn_behind_their_median() -> None:
    runs = [used(f"r-{number}", Usage(number * 100, 10), Usage(number * 200, 10)) for number in range(1, 8)]
    axes = plots.tokens(runs, window=1_000).axes[0]
    middle = [list(line.get_ydata()) for line in axes.lines if line.get_label() == "median"]
    assert middle == [[410, 810]]
    curves = [Curve(runs[0], {1: 4, 2: 2}), Curve(runs[1], {1: 6})]
    assert medians(curves, carried=True) == {1: 5, 2: 4} and medians(curves, carried=False) == {1: 5, 2: 2}


# Cost


def test_cost_and_tokens_are_drawn_by_operation_with_lower_bounds(run: Run) -> None:
    figure = plots.cost(run)
    assert names(figure) == ["compaction", "chat", "planner"]
    assert widths(figure, "US dollars") == pytest.approx([0.05, 0.04, 0.004])
    assert widths(figure, "input tokens", 1) == [15_000, 31_000, 900]
    assert widths(figure, "output tokens", 1) == [600, 1_500, 200]
    said = words(figure)
    assert {"$0.05", "at least $0.04", "$0.004", "15,600", "at least 32,500"} <= set(said)
    assert "2 of 8 calls without a known price: their cost is not 0, it is unknown" in said
    assert "1 of 8 calls without recorded tokens" in said


def test_tokens_are_drawn_with_a_note_if_prices_are_unknown() -> None:
    figure = plots.cost(used("r-1", Usage(100, 20), Usage(200, 30)))
    assert len(figure.axes) == 1 and figure.axes[0].get_xlabel() == "tokens"
    assert {"Tokens, by operation (no price is known)", "350"} <= set(words(figure))


# Tokens


def test_tokens_are_stacked_against_the_window_with_compactions_marked(run: Run) -> None:
    figure = plots.tokens(run)
    heights = {found.get_label(): [bar.get_height() for bar in found] for found in figure.axes[0].containers}
    assert heights["input from the cache"] == [0, 3_000, 7_000, 1_000, 0]
    assert heights["input"] == [4_000, 4_000, 2_000, 4_000, 6_000]
    assert heights["output"] == [300, 200, 100, 400, 500]
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert set(lines["context window: 20,000"].get_ydata()) == {WINDOW}
    assert set(lines["compacted above 16,000"].get_ydata()) == {16_000.0}
    assert list(lines["compaction"].get_xdata()) == [4.5, 4.5], "before round 5"
    assert list(lines["not recorded"].get_xdata()) == [4]
    assert "Not recorded: the tokens of 1 round" in words(figure)


def test_distant_or_unknown_context_window_becomes_a_note(run: Run) -> None:
    assert "Context window: 1,000,000 tokens, of which the largest round fills 0.9%" in words(
        plots.tokens(run, window=1_000_000)
    )
    figure = plots.tokens(used("r-1", Usage(10, 1)))
    assert "The model's context window is not known: plots.tokens(run, window=...) draws it" in words(figure)


def test_window_comes_from_settings_or_the_price_table(subtests: pytest.Subtests) -> None:
    known = {"anthropic:claude-sonnet-4-5": 200_000, "gpt-4o": 128_000, "openai:gpt-4o?url=http://localhost:1/v1": None}
    for model, window in {**known, "simulated:disciplined": None, "ollama:a:b": None}.items():
        with subtests.test(model):
            found = window_of(RunBuilder(model=model).run)
            assert found is None if window is None else found is not None and found >= window
    assert window_of(RunBuilder(settings={"history": {"window": 7}}).run) == 7
    assert window_of(RunBuilder(settings={"history": "edited by hand"}).run) is None


def test_context_size_counts_the_last_request_of_a_reply() -> None:
    told = RunBuilder().add(e.RoundStarted, index=0, reason="prompt")
    reply = Message("assistant", (Text("Done."),))
    told.add(e.ModelReplied, message=reply, usage=Usage(900, 50), metadata={CONTEXT_TOKENS: 450})
    assert [(one.input, one.output) for one in round_tokens(told.run)] == [(400, 50)]


def test_estimated_tokens_are_labelled() -> None:
    assert any(text.startswith("Estimated") for text in words(plots.tokens(used("r-1", Usage(10, 1, estimated=True)))))


# Tools and outcomes


def test_tool_calls_are_drawn_by_outcome_most_called_first(run: Run) -> None:
    figure = plots.tools(run)
    assert names(figure) == ["look", "fail", "ask_person"]
    assert (widths(figure, "succeeded"), widths(figure, "failed"), widths(figure, "not run")) == ([3, 1], [1], [1])
    assert "1 of 1 failed" in words(figure)


def test_runs_are_drawn_by_their_stop_reasons(run: Run) -> None:
    limited = RunBuilder(run_id="r-2").round("x").add(e.RunFinished, status="limited", stop_reason="max_rounds").run
    unknown = RunBuilder(run_id="r-3").round("x").add(e.RunFinished, status="unknown", stop_reason="").run
    figure = plots.ends([run, run, limited, unknown])
    assert names(figure) == ["natural", "max rounds", "end not recorded"]
    assert [widths(figure, look) for look in ("completed", "limited", "end not recorded")] == [[2], [1], [1]]
    assert {"2 (50%)", "1 (25%)", "n = 4 runs"} <= set(words(figure))


def test_runs_are_drawn_by_outcome_with_unknown_ones_separate(run: Run) -> None:
    def assessed(*given: Assessment) -> Run:
        builder = RunBuilder(run_id="r-2").round("x")
        for one in given:
            builder.add(w.OutcomeGiven, assessment=one)
        return builder.add(e.RunFinished, status="completed", stop_reason="natural").run

    failed, passed = Assessment("failed", "trace", "reward", 0.0), Assessment("passed", "expectation", "rounds == 1")
    part = Assessment("unknown", "trace", "reward", 0.5)
    figure = plots.outcomes([run, assessed(failed), assessed(failed), assessed(failed, passed), assessed(part)])
    assert names(figure) == [
        "passed: expectation",
        "failed: trace",
        "unknown: not recorded",
        "unknown: trace",
    ]
    assert [widths(figure, look) for look in ("passed", "failed", "unknown")] == [[1], [2], [1, 1]]
    assert {"1 (33%)", "2 (67%)", "1", "n = 5 runs"} <= {*words(figure)}
