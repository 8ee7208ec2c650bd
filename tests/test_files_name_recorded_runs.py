"""Foreign files and logs name recorded runs only where a workflow file has them beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentnb import Agent, Run, Store, Workflow, load_trace, recover
from agentnb.cli import main
from agentnb.core.log.wire import encode
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.rerun.fork import fork_sync

REFUSED = "which is outside the workflow file's folder"


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with recorded runs beside it and in it, and links between them."""
    folder = tmp_path / "work"
    for runs in (folder / "runs", folder / "sub" / "runs", tmp_path / "private"):
        runs.mkdir(parents=True)
        recorded = Agent(ScriptedModel(["Done."])).run_sync("Go", store=Store(runs), show=False)
        (runs / f"{recorded.id}.jsonl").rename(runs / "a.jsonl")
    (folder / "linked").mkdir()
    (folder / "linked" / "a.jsonl").symlink_to(tmp_path / "private" / "a.jsonl")
    (folder / "away").symlink_to(tmp_path / "private")
    monkeypatch.chdir(folder)
    return folder


def of_file(path: str, at: str = "work.yaml") -> str:
    """Run a workflow file whose agent has this model; return its result."""
    Path(at).write_text(f'agents: {{a: {{model: "recorded:{path}"}}}}\nworkflow: [{{type: agent, name: a, prompt: Go}}]\n')
    workflow = Workflow.from_yaml(Path(at))
    return outcome(lambda: workflow.run_sync("Go", show=False))


def outcome(entry_point: Callable[[], Run]) -> str:
    try:
        return entry_point().status
    except SettingsError as error:
        assert REFUSED in error.what and "recorded:" in error.hint, error
        return "refused"


def test_workflow_file_can_name_only_recorded_runs_beside_it(work: Path, subtests: pytest.Subtests) -> None:
    private = work.parent / "private"
    cases = {
        "beside it": (of_file("runs/a.jsonl"), True),
        "a folder beside it": (of_file("runs"), True),
        "a pattern beside it": (of_file("runs/*.jsonl"), True),
        "an absolute path beside it": (of_file(str(work / "runs")), True),
        "another folder": (of_file(str(private / "a.jsonl")), False),
        "the folder above": (of_file("../private"), False),
        "a pattern above": (of_file("../private/*.jsonl"), False),
        "a link to a file": (of_file("linked/a.jsonl"), False),
        "a folder with a link": (of_file("linked"), False),
        "a pattern that finds a link": (of_file("linked/*.jsonl"), False),
        "a link to a folder": (of_file("away"), False),
        "beside the current folder's file, not its own": (of_file("runs/a.jsonl", "sub/work.yaml"), False),
        "beside it in another folder": (of_file("sub/runs/a.jsonl", "sub/work.yaml"), True),
    }
    for name, (ended, allowed) in cases.items():
        with subtests.test(name):
            assert ended == ("completed" if allowed else "refused")


def test_other_entry_points_accept_no_recorded_path_from_files(work: Path, subtests: pytest.Subtests) -> None:
    """A text has no folder, and a foreign log's own claims do not count."""
    text = 'agents: {a: {model: "recorded:runs"}}\nworkflow: [{type: agent, name: a, prompt: Go}]\n'
    (work / "sub" / "w.yaml").write_text(text)
    logs = work / "logs"
    agent = Agent("recorded:runs").run_sync("Go", store=Store(logs), show=False)
    whole = Workflow.from_yaml(text).as_typed().run_sync("Go", store=Store(logs), show=False)

    def log(run: Run, folder: str, *, cut: int = 0) -> Path:
        path = work / folder / f"{run.id}.jsonl"
        path.parent.mkdir(exist_ok=True)
        events = [*load_trace(logs / path.name).events]
        path.write_bytes(b"".join(encode(event) for event in (events[:cut] if cut else events)))
        return path

    source = b'"source":"' + str(work / "w.yaml").encode() + b'"'
    claims = log(whole, "claims", cut=2)
    claims.write_bytes(claims.read_bytes().replace(b'"source":""', source))
    foreign, cut = log(agent, "elsewhere"), log(agent, "cut", cut=2)
    entry_points: dict[str, tuple[Callable[[], Run], bool]] = {
        "a text": (lambda: Workflow.from_yaml(text).run_sync("Go", show=False), False),
        "a text that was typed": (lambda: Workflow.from_yaml(text).as_typed().run_sync("Go", show=False), True),
        "fork of a log from elsewhere": (lambda: fork_sync(load_trace(foreign), 1), False),
        "fork of an own log": (lambda: fork_sync(load_trace(logs / foreign.name), 1), True),
        "fork with the model named": (lambda: fork_sync(load_trace(foreign), 1, model="recorded:runs"), True),
        "recover a log from elsewhere": (lambda: asyncio.run(recover(cut, trust_log=True)), False),
        "recover a workflow that says it is here": (lambda: asyncio.run(recover(claims, trust_log=True)), False),
    }
    for name, (entry_point, allowed) in entry_points.items():
        with subtests.test(name):
            assert outcome(entry_point) == ("completed" if allowed else "refused")
    with subtests.test("agentnb exec"):
        assert main(["exec", "sub/w.yaml", "Go"]) == 2
