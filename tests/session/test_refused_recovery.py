"""Refused recoveries say what to do and change nothing; runs are found by several names."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cut_runs import assert_whole, cut, do, work
from marked_logs import marked
from property_settings import size
from run_builder import RunBuilder

from agentnb import Agent, GuidanceSet, Matrix, Run, Store, load_trace, recover
from agentnb.agent.from_log import logged_guidance, logged_policy
from agentnb.chat.logged_context import context_again
from agentnb.core.log import events as e
from agentnb.core.log.wire import encode
from agentnb.errors import AgentnbError, SettingsError, StoreError, TraceError, UnknownTool
from agentnb.models import ScriptedModel
from agentnb.policies import PolicyBundle
from agentnb.store import run_file

OLDER = sorted((Path(__file__).parents[1] / "store" / "older_logs").glob("*.jsonl"))


def run_of(folder: Path, **settings: Any) -> Run:
    agent = Agent(ScriptedModel([do(1), do(2), "Done."]), tools=[work], todos=False, **settings)
    return agent.run_sync("Go.", store=Store(folder / "whole"))


@pytest.fixture
def died(tmp_path: Path) -> Path:
    return cut(run_of(tmp_path).events[:8], tmp_path / "died")


def again(path: Any, **given: Any) -> Run:
    given = {"tools": [work], "model": ScriptedModel([do(2), "Done."])} | given
    return asyncio.run(recover(path, **given))


def assert_refused(path: Path, kind: type[AgentnbError], said: str, **given: Any) -> None:
    """Check the message, and that the log is unchanged and unlocked."""
    before = path.read_bytes()
    with pytest.raises(kind, match=said):
        again(path, **given)
    assert path.read_bytes() == before
    with path.open("rb") as file:
        assert not run_file.is_being_written(file)


def test_ended_run_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    message = rf"Run {run.id} has ended \(natural\).*continue_from=run"
    assert_refused(tmp_path / "whole" / f"{run.id}.jsonl", SettingsError, message)


def test_log_of_a_newer_schema_is_refused(died: Path) -> None:
    lines = died.read_bytes().splitlines(keepends=True)
    first = json.loads(lines[0]) | {"schema": e.SCHEMA + 1}
    died.write_bytes(json.dumps(first).encode() + b"\n" + b"".join(lines[1:]) + b'{"kind":"weather')
    assert_refused(died, TraceError, "written by a newer agentnb .*pip install --upgrade agentnb")


@pytest.mark.parametrize("rest", [b"", b'{"kind":"weather_turned","seq":9,"sky":"clear"}\n', b'{"kind":"weather'], ids=repr)
def test_log_continued_by_a_newer_version_is_refused(died: Path, rest: bytes) -> None:
    events = load_trace(died).events
    newer = e.RunRecovered(seq=len(events), at=events[-1].at, run_id=events[0].run_id, schema=e.SCHEMA + 1)
    died.write_bytes(died.read_bytes() + encode(newer) + rest)
    assert_refused(died, TraceError, "written by a newer agentnb .*pip install --upgrade agentnb")


def test_invalid_run_is_refused(subtests: pytest.Subtests) -> None:
    for given in [None, 7, [], {}]:
        with subtests.test(given=given):
            with pytest.raises(SettingsError, match=r"needs a run, got \w+. Pass a run, its id, or the path of its log"):
                again(given)


def test_invalid_agent_is_refused(died: Path) -> None:
    assert_refused(died, SettingsError, "must be an Agent", agent="scripted:script")


def test_log_without_a_complete_event_or_start_is_refused(died: Path) -> None:
    first = died.read_bytes().splitlines()[0]
    for data, message in (
        (first[: len(first) // 2], "contains no complete event. The run was interrupted before it began; nothing is lost"),
        (b"", "contains no complete event"),
        (b"Dear diary\n", "is not an agentnb run log"),
        (b"".join(died.read_bytes().splitlines(keepends=True)[1:]), "its first line is not a run_started event"),
    ):
        path = died.with_name(f"{len(data)}.jsonl")
        path.write_bytes(data)
        assert_refused(path, TraceError, message)


def test_log_with_a_gap_is_refused_and_unlocked(died: Path) -> None:
    lines = died.read_bytes().splitlines(keepends=True)
    died.write_bytes(b"".join(lines[:3] + lines[4:]))
    assert_refused(died, TraceError, "Event 4 of run .* is out of order: 3 was expected")


def test_missing_log_path_is_not_taken_as_an_id_prefix(died: Path) -> None:
    for missing in (died.with_name(f"{died.stem[:-3]}.jsonl"), died.with_name("gone.jsonl")):
        with pytest.raises(StoreError, match=r"There is no .*lists the runs"):
            again(missing)
    with pytest.raises(StoreError, match=r"There is no run 'gone'"):
        again("gone", store=Store(died.parent))
    assert load_trace(died).status == "interrupted"


def test_run_is_found_by_path_id_prefix_or_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = run_of(tmp_path).events[:8]
    ways: list[Any] = [lambda path: path, str, lambda path: path.stem, lambda path: path.stem[-8:], load_trace]
    for number, way in enumerate(ways):
        path = cut(events, tmp_path / str(number))
        monkeypatch.setattr("agentnb.session.recovery.default_store", lambda path=path: (Store(path.parent), ""))
        assert again(way(path)).status == "completed"
        assert load_trace(path).times_recovered == 1


def test_missing_tools_and_models_are_named(died: Path) -> None:
    assert_refused(died, UnknownTool, r"had the tool work, which you did not pass.*recover\(run, tools=\[work\]\)", tools=[])
    assert_refused(died, SettingsError, r"used scripted:script.*a Python object.*recover\(run, model=", model=None)
    assert_refused(died, SettingsError, "nobody:knows|no provider|not known", model="nobody:knows")
    assert again(died).status == "completed"


def test_missing_custom_policy_or_guidance_is_requested(tmp_path: Path) -> None:
    class Own:
        name: ClassVar[str] = "own"

        def rules(self, words: GuidanceSet, *limits: Any, repeatable: Iterable[str] = ()) -> PolicyBundle:
            return Matrix().rules(words, *limits, repeatable=repeatable)

    words = GuidanceSet.from_markdown("mine", "Go on.")
    for settings, message in (
        ({"policy": Own()}, r"had its own policy, own.*recover\(run, agent=Agent\(\.\.\.\)\)"),
        ({"guidance": words}, r"had the guidance set mine, which is not available here.*recover\(run, agent=Agent\(\.\.\.\)\)"),
    ):
        older = "guidance" in settings  # since schema 5, logs include the texts
        run = run_of(tmp_path, **settings)
        path = cut(run.events[:8], tmp_path / str(len(message)))
        if older:
            path.write_bytes(path.read_bytes().replace(b'"schema":%d' % e.SCHEMA, b'"schema":4', 1))
        assert_refused(path, SettingsError, message)
        agent = Agent(ScriptedModel([do(2), "Done."]), tools=[work], todos=False, **settings)
        assert again(path, agent=agent, trust_log=True if older else None).status == "completed"


def test_malformed_settings_are_refused_like_custom_ones(subtests: pytest.Subtests) -> None:
    odd_context = {"name": "context", "settings": {"own": [{"nom": 3}]}}
    cases: dict[str, tuple[Callable[[Run], Any], dict[str, Any]]] = {
        "a policy without a word": (logged_policy, {"policy": {"name": {"of": 1}}}),
        "a number as policy": (logged_policy, {"policy": 3}),
        "guidance without a word": (logged_guidance, {"guidance": {"set": ["a"]}}),
        "a text as guidance": (logged_guidance, {"guidance": "brief"}),
        "contexts": (context_again, {"extensions": [odd_context]}),
        "no list of contexts": (context_again, {"extensions": [{"name": "context", "settings": {"own": 3}}]}),
        "a context that is not there": (context_again, {"extensions": [{"name": "context"}]}),
    }
    for name, (read, settings) in cases.items():
        with subtests.test(name), pytest.raises(SettingsError):
            read(RunBuilder(settings=settings, schema=4).run)


def test_active_run_is_refused(tmp_path: Path) -> None:
    asked, let_go = threading.Event(), threading.Event()

    def held(request: Any) -> str:
        asked.set()
        assert let_go.wait(30)
        return "Done."

    store = Store(tmp_path)
    live = Agent(ScriptedModel([do(1), held]), tools=[work], todos=False).start("Go.", store=store)
    assert asked.wait(30)
    try:
        with pytest.raises(StoreError, match=r"is running in another process. Stop it there first"):
            again(store.path(live.run_id))
    finally:
        let_go.set()
    run = live.result(30)
    assert run.status == "completed" and store.load(run.id) == run


fcntl = pytest.importorskip("fcntl")


def test_recovery_waits_for_a_brief_reader_of_the_log(died: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with died.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        monkeypatch.setattr(run_file, "sleep", lambda _: fcntl.flock(reader, fcntl.LOCK_UN))
        assert again(died).status == "completed"


def test_recovery_does_not_wait_for_a_permanent_reader(died: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_file, "sleep", lambda _: None)
    with died.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        with pytest.raises(StoreError, match="is running in another process"):
            again(died)


def test_run_can_be_recovered_without_file_locks(died: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(run_file.fcntl, "flock", none)
    assert again(died).status == "completed"


def test_read_only_log_is_refused(died: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: Any, **__: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(run_file.os, "open", denied)
        with pytest.raises(StoreError, match="cannot be written: Permission denied"):
            again(died)
    assert again(died).status == "completed"


def test_interrupted_run_of_an_earlier_schema_is_recovered(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for path in OLDER:
        with subtests.test(path.stem):
            whole = load_trace(path)
            tools = [stub(tool.name) for tool in whole.tools if tool.name != "todo_operations"]
            options: dict[str, Any] = {"answer": lambda question: "always"} if "approve" in whole.settings else {}
            for count in range(1, len(whole.events), size(7, nightly=1)):
                died = whole.events[:count]
                log = cut(died, tmp_path / path.stem / str(count))
                run = again(log, tools=tools, model=ScriptedModel(["Done."] * 20), **options)
                assert_whole(log, run, died)
                assert schemas_of_recoveries(run.events) == [*schemas_of_recoveries(died), e.SCHEMA]
                assert log.read_bytes().startswith(marked(died))


def stub(name: str) -> Any:
    def call(**given: Any) -> str:
        """Stands for a tool of then."""
        return "made again"

    call.__name__ = name
    return call


def schemas_of_recoveries(events: Sequence[e.AnyEvent]) -> list[int]:
    return [event.schema for event in events if isinstance(event, e.RunRecovered)]
