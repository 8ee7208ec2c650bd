"""User functions that raise exceptions ending tasks or processes: the run ends properly, with its end logged."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import agent_of
from waiting import PATIENCE

from agentnb import RunOptions, Store, ToolCall
from agentnb.agent.extension import Extension
from agentnb.core.guidance import Guidance
from agentnb.detect import detector
from agentnb.errors import SettingsError
from agentnb.policies.gates import Ask

RAISED: tuple[type[BaseException], ...] = (GeneratorExit, SystemExit, asyncio.CancelledError, StopIteration)


def write() -> str:
    """Write."""
    return "wrote"


agent = partial(agent_of, ToolCall("write"), "Done.", tools=[write], todos=False)


def test_function_that_raises_leaves_the_question_unanswered(subtests: pytest.Subtests) -> None:
    for kind in RAISED:

        def fail(*_: object, kind: type[BaseException] = kind) -> Any:
            raise kind

        async def fail_later(*_: object, kind: type[BaseException] = kind) -> Any:
            raise kind

        for name, program in {"plain": fail, "async": fail_later}.items():
            if kind is StopIteration and name == "async":
                continue  # Python turns it into a RuntimeError
            for door in ("approve", "answer"):
                with subtests.test(f"{door} {name} {kind.__name__}"):
                    options: dict[str, Any] = {door: program}
                    if door == "answer":
                        options["approval_mode"] = "ask"
                    asking = agent(gates=[lambda call, run: Ask("May it?")])
                    run = asking.start("go", RunOptions(can_ask=False, **options)).result(PATIENCE)
                    assert run.status == "completed" and run.rounds[0].results[0].is_error


def test_watcher_that_raises_is_dropped(tmp_path: Any, subtests: pytest.Subtests) -> None:
    for kind in RAISED:
        with subtests.test(kind.__name__):

            def watch(_: object, kind: type[BaseException] = kind) -> None:
                raise kind

            store = Store(tmp_path / kind.__name__)
            run = agent().run_sync("go", store=store, watch=watch)
            assert run.status == store.load(run.id).status == "completed"


def test_failed_detector_is_named(snapshot: Snapshot) -> None:
    @detector
    def mine(run: Any) -> str:
        raise ValueError("bad")

    (warning,) = agent(detect=mine).run_sync("go").warned
    assert warning.message == snapshot
    assert str(warning).endswith(". Try it on the run: detect.findings(run, [...])")


def test_invalid_parts_are_refused_with_the_syntax() -> None:
    def stalls(run: Any) -> str:
        return ""

    with pytest.raises(SettingsError, match=r"stalls cannot be called without arguments.*@detector"):
        agent(detect=[stalls])
    with pytest.raises(SettingsError, match=r"Use tools=\[f\]"):
        Extension(name="mine", tools=write)  # type: ignore[arg-type]


def test_misspelled_guidance_fact_causes_one_warning() -> None:
    guidance = Guidance("mine", "call", "Call a tool.", asks=("caled",))
    run = agent(extensions=[Extension(name="mine", guides=(lambda run: guidance,))]).run_sync("go")
    (warning,) = [one for one in run.warned if "caled" in one.message]
    assert (
        len(run.rounds) == 2 and str(warning).endswith(". Did you mean called or acted?") and "Did you" not in warning.message
    )
