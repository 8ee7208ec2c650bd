"""Tracebacks of user tools: the user's frames only."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentnb
from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.function import tool

PACKAGE = str(Path(agentnb.__file__).parent)


def look_up(key: str) -> str:
    return {"a": "1"}[key]


def plain() -> str:
    return look_up("b")


@tool(parallel_safe=True)
def beside() -> str:
    return look_up("b")


async def on_the_loop() -> str:
    await asyncio.sleep(0)
    return look_up("b")


def with_a_cause() -> str:
    try:
        return look_up("b")
    except KeyError as error:
        raise ValueError("no such key") from error


def ends_an_iteration() -> Any:
    return next(iter(()))


async def in_a_task_of_its_own() -> str:
    async def inner() -> str:
        return look_up("b")

    return await asyncio.wait_for(asyncio.ensure_future(inner()), 30)


def failed(function: Callable[..., Any], start: str) -> Run:
    agent = Agent(ScriptedModel([ToolCall(function.__name__), "Sorry."]), tools=[function])
    return agent.run_sync("go") if start == "run_sync" else asyncio.run(agent.run("go"))


@pytest.mark.req("R2.10")
def test_traceback_has_user_frames_but_no_agentnb_frames(subtests: pytest.Subtests) -> None:
    for start, function in itertools.product(
        ["run_sync", "run"], [plain, beside, on_the_loop, with_a_cause, ends_an_iteration, in_a_task_of_its_own]
    ):
        with subtests.test(start=start, function=function.__name__):
            (record,) = failed(function, start).rounds[0].records
            assert f"in {function.__name__}\n" in record.traceback
            assert PACKAGE not in record.traceback


@pytest.mark.parametrize("folder", ["asyncio_course", "agentnb_tools", "concurrent/futures_market"])
def test_user_code_is_recognized_in_any_folder(folder: str) -> None:
    home = Path(PACKAGE).parent if folder.startswith("agentnb") else Path("home")
    code = compile("def theirs():\n    raise ValueError('no')\n", str(home / folder / "mine.py"), "exec")
    names: dict[str, Any] = {}
    exec(code, names)
    (record,) = failed(names["theirs"], "run_sync").rounds[0].records
    assert "in theirs" in record.traceback


def test_error_without_a_readable_message_is_reported() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def odd() -> None:
        raise Odd

    run = failed(odd, "run_sync")
    assert "Odd" in run.rounds[0].results[0].text
    assert run.status == "completed"


def test_lone_surrogates_in_an_error_are_replaced() -> None:
    def odd() -> None:
        raise ValueError("\ud800")

    (record,) = failed(odd, "run_sync").rounds[0].records
    assert record.result is not None
    record.result.text.encode()
    record.traceback.encode()
