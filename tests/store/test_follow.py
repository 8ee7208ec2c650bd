"""Following the log of another process event by event, until it ends or its writer dies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Run, load_trace
from agentnb.core.log.events import RunFinished
from agentnb.core.log.wire import encode
from agentnb.errors import TraceError
from agentnb.models import ScriptedModel
from agentnb.store.follow import FollowedRun
from agentnb.store.run_file import RunFile


@pytest.fixture(scope="module")
def run() -> Run:
    return Agent(ScriptedModel(["Done."])).run_sync("Go")


def test_events_are_yielded_once_and_iteration_ends_with_the_run(run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"{run.id}.jsonl"
    writer = RunFile(path)
    writer.append(run.events[0])
    followed = load_trace(path, follow=True)
    told: list[Any] = []
    for event in followed:
        told.append(event)
        if len(told) < len(run.events):
            writer.append(run.events[len(told)])
    assert told == list(run.events) and followed.run == run and followed.is_over and followed.update() == []
    writer.close()


def test_following_does_not_block_the_loop(run: Run, tmp_path: Path) -> None:
    path = tmp_path / f"{run.id}.jsonl"
    writer = RunFile(path)
    writer.append(run.events[0])

    async def follow() -> list[Any]:
        followed = FollowedRun(path, pause=0)
        told: list[Any] = []
        async for event in followed:
            told.append(event)
            asyncio.get_running_loop().call_soon(lambda: len(told) < len(run.events) and writer.append(run.events[len(told)]))
        return told

    assert asyncio.run(follow()) == list(run.events)
    writer.close()


def test_half_written_event_is_yielded_when_complete(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    lines = [encode(event) for event in run.events]
    writer = RunFile(path)
    writer.append(run.events[0])
    followed = load_trace(path, follow=True)
    with path.open("ab") as file:
        file.write(lines[1][:20])
        file.flush()
        assert followed.update() == [] and not followed.is_over
        file.write(lines[1][20:])
        file.flush()
        assert followed.update() == [run.events[1]]
    writer.close()


def test_run_with_a_dead_writer_is_interrupted(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"".join(encode(event) for event in run.events if not isinstance(event, RunFinished)))
    followed = load_trace(path, follow=True)
    assert len(list(followed)) == len(run.events) - 1 and followed.run.status == "interrupted"


def test_only_run_logs_can_be_followed(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.jsonl").write_text('{"messages": []}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "gap.jsonl").write_bytes(encode(run.events[0]) + encode(run.events[2]))
    for name, said in {"a": "is not an agentnb run log", "empty": "a complete event yet", "gap": r"gap\.jsonl, line 2"}.items():
        with pytest.raises(TraceError, match=said):
            load_trace(tmp_path / f"{name}.jsonl", follow=True)


def test_later_malformed_line_is_an_error_with_its_number(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    writer = RunFile(path)
    writer.append(run.events[0])
    followed = load_trace(path, follow=True)
    with path.open("ab") as file:
        file.write(encode(run.events[1]) + b'{"kind":"warned","seq":2}\n')
    with pytest.raises(TraceError, match=r"r\.jsonl, line 3: Not an agentnb event.*are intact"):
        followed.update()
    writer.close()
