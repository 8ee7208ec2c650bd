"""Recorded runs as a cassette: equal requests get equal replies, and a miss names the difference."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from scripted_runs import do, reply, scripted, think, work
from streamed_replies import Streamed, Streaming

from agentnb import Agent, Matrix, Run, Store, ToolCall, load_trace
from agentnb.core.messages import Text
from agentnb.core.usage import Usage
from agentnb.errors import ModelError, ReplayDiverged, SettingsError
from agentnb.models import RecordedModel, ScriptedModel, make_model
from agentnb.models.recorded_model import difference, digest
from agentnb.models.simulated.simulated_model import SimulatedModel


def again(run: Run, model: Any, prompt: str = "Write three stories.", **settings: Any) -> Run:
    return Agent(model, tools=[work, think], **settings).run_sync(prompt)


def test_notebook_rerun_from_logs_changes_only_ids_and_times(tmp_path: Path) -> None:
    store = Store(tmp_path)
    live = SimulatedModel("disciplined")
    agent = Agent(live, tools=[work])
    run = agent.run_sync("1. `work(1)`\n2. `work(2)`", store=store)
    two = agent.run_sync("3. `work(3)`", store=store, continue_from=run)
    cassette = make_model(f"recorded:{tmp_path}")
    replayed = Agent(cassette, tools=[work])
    first = replayed.run_sync("1. `work(1)`\n2. `work(2)`")
    second = replayed.run_sync("3. `work(3)`", continue_from=first)
    for was, now in ((run, first), (two, second)):
        assert [*was.messages] == [*now.messages] and was.usage == now.usage
        assert (was.status, was.stop_reason) == (now.status, now.stop_reason) and was.id != now.id


def test_replies_of_several_runs_are_found_by_request() -> None:
    one, _ = scripted(do(1), "One.")
    two = Agent(ScriptedModel([do(2), "Two."]), tools=[work, think]).run_sync("Write two stories.")
    model = RecordedModel([one, two])
    assert again(two, model, "Write two stories.").text == "Two."
    assert again(one, model).text == "One."


def test_repeated_request_gets_its_replies_in_order_then_the_last() -> None:
    runs = [Agent(ScriptedModel([text])).run_sync("Hm?") for text in ("First.", "Second.")]
    model = RecordedModel(runs)
    assert [Agent(model).run_sync("Hm?").text for _ in range(3)] == ["First.", "Second.", "Second."]


def test_unrecorded_request_error_names_the_nearest_and_first_difference(subtests: pytest.Subtests) -> None:
    run, _ = scripted(do(1), "Done.")

    def other(n: int = 0) -> str:
        """Does the work of one item."""
        return "made badly"

    other.__name__ = "work"
    model = RecordedModel(run)
    with subtests.test("the prompt"), pytest.raises(ReplayDiverged) as caught:
        again(run, model, "Write four stories.")
    told = str(caught.value)
    assert f"The closest request is round 1 of run {run.id}: message 1 (user) differs" in told
    assert "-Write three stories." in told and "+Write four stories." in told
    with subtests.test("a result"):
        failed = Agent(RecordedModel(run), tools=[other, think]).run_sync("Write three stories.")
        assert failed.status == "failed" and failed.error is not None
        assert "round 2 of run" in str(failed.error) and "+[result of call 1, work] made badly" in str(failed.error)
    with subtests.test("the system prompt"), pytest.raises(ReplayDiverged, match="the system prompt differs"):
        again(run, RecordedModel(run), system="Be brief.")
    with subtests.test("the tools"), pytest.raises(ReplayDiverged, match=r"the tool think|the settings"):
        Agent(RecordedModel(run), tools=[work]).run_sync("Write three stories.")
    with subtests.test("nothing recorded"), pytest.raises(ReplayDiverged, match="has no recorded requests"):
        again(run, RecordedModel([]))


def test_requests_equal_except_call_ids_have_the_same_digest() -> None:
    runs = [scripted(ToolCall("work", {"n": 1}, call_id), "Done.")[0] for call_id in ("a", "b")]
    one, other = (RecordedModel(run).recordings[1].request for run in runs)
    assert one != other and digest(one) == digest(other) and difference(one, other) == ""
    assert digest(RecordedModel(runs[0]).recordings[0].request) != digest(one)


def test_recorded_markers_are_returned_and_parsed_again() -> None:
    policy = Matrix(workflow_mode=True)
    run, _ = scripted("Half.\n[CONTINUE]", "Now.\n[WORKFLOW_COMPLETE]", policy=policy)
    replayed = again(run, RecordedModel(run), policy=policy)
    assert (
        [round_.signals for round_ in replayed.rounds]
        == [("continue",), ("complete",)]
        == [round_.signals for round_ in run.rounds]
    )
    assert [*replayed.messages] == [*run.messages]


def test_retries_usage_and_reply_metadata_are_replayed() -> None:
    run, _ = scripted(reply(Text("Done."), stop_reason="stop", usage=Usage(7, 8, cost=0.25), metadata={"a": [1]}))
    (one,) = again(run, RecordedModel(run)).rounds
    assert (one.usage, one.stop_reason, one.metadata) == (Usage(7, 8, cost=0.25), "stop", {"a": [1]})


def test_recorded_failure_is_replayed() -> None:
    run = asyncio.run(
        Agent(Streaming([do(1), Streamed("half ", ValueError("boom"))]), tools=[work, think]).run("Write three stories.")
    )
    assert run.status == "failed"
    replayed = again(run, RecordedModel(run))
    assert replayed.status == "failed" and replayed.error is not None and "boom" in str(replayed.error)
    assert replayed.rounds[-1].text == run.rounds[-1].text == "half "


def test_ordered_replay_checks_each_request() -> None:
    run, _ = scripted(do(1), "Done.")
    assert again(run, RecordedModel(run, in_order=True)).text == "Done."
    with pytest.raises(ReplayDiverged, match=r"round 1 of run .*: message 1 \(user\) differs"):
        again(run, RecordedModel(run, in_order=True), "Other.")


def test_foreign_trace_can_be_used_as_a_cassette() -> None:
    run = load_trace("healthy")
    assert len(RecordedModel(run).recordings) == len(run.rounds)


@pytest.mark.slow("starts interpreters")
def test_recorded_run_reader_is_imported_on_first_use(tmp_path: Path, subtests: pytest.Subtests) -> None:
    run = Agent(ScriptedModel(["First."])).run_sync("Hm?", store=Store(tmp_path))
    by_name = f"'recorded:{tmp_path.as_posix()}'"
    begin = "from agentnb.models import RecordedModel, make_model\n"
    scripts = {
        "an agent by its name": (f"from agentnb import Agent\nAgent({by_name}).run_sync('Hm?').text", "First. before: False"),
        "the model": (f"{begin}from agentnb import Agent\nAgent(make_model({by_name})).run_sync('Hm?').text", "First."),
        "without the package's names": (f"{begin}RecordedModel([]).recordings", "[] before: False"),
        "with the room that reads": (f"import agentnb.rerun\n{begin}RecordedModel([]).recordings", "[] before: True"),
    }
    for name, (script, expected) in [*scripts.items()][:: size(4, nightly=1)]:
        with subtests.test(name):
            *lines, last = script.split("\n")
            code = "\n".join(
                [*lines, "import sys", "before = 'agentnb.rerun' in sys.modules", f"print({last}, 'before:', before)"]
            )
            out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
            assert expected in out.stdout + out.stderr
    assert run.text == "First."


def test_invalid_recording_is_refused() -> None:
    with pytest.raises((SettingsError, ModelError), match="is not a recorded run"):
        Agent(RecordedModel(3)).run_sync("Hm?")
