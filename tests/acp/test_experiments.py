"""External agents as experiment variants: own folders, sandboxes, and the same tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bash_calls import skip_without_sandbox
from msgspec.structs import replace

from agentnb import Agent, Experiment, ToolCall, compare
from agentnb.acp.known_agents import KnownAgent
from agentnb.detect.run import Run
from agentnb.errors import ExperimentProblems
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.results.experiment_folder import ROWS
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running import cell_folders as module
from agentnb.experiments.running.cell_folders import cell_folders
from agentnb.experiments.views.results_view import results_text
from agentnb.models import ScriptedModel
from agentnb.tools.builtin.shell import sandbox

TESTS = Path(__file__)
"""A file outside any home."""


def wrote(run: Run, row: Mapping[str, Any]) -> bool:
    """Return whether the run has written the file."""
    file = Path(row["work_dir"], "a.txt")
    return file.is_file() and file.read_text() == "alpha\n"


def is_copy(run: Run, row: Mapping[str, Any]) -> bool:
    """Return whether the folder of the run has the files of its task."""
    return {path.name for path in Path(row["work_dir"]).iterdir()} >= {"b.txt"}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a task, beside the home of the person."""
    folder, home = tmp_path / "task", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "b.txt").write_text("beta\n")
    (folder / ".env").write_text("TOKEN=kept\n")
    (home / "notes.txt").write_text("mine\n")
    monkeypatch.setenv("HOME", str(home))
    return folder


def ours() -> Agent:
    """Return an agent of agentnb that writes the file."""
    call = ToolCall("write_file", {"path": "a.txt", "content": "alpha\n"})
    model = ScriptedModel([lambda request: call if request.messages[-1].role == "user" else "Written."], repeat=True)
    return Agent(model, ["files"], permissions={"write_file": "allow"}, todos=False, guidance="off")


def rows_of(folder: Path, prompt: str = "write", count: int = 6) -> list[dict[str, str]]:
    return [{"id": f"t{number}", "prompt": prompt, "work_dir": str(folder)} for number in range(count)]


def test_external_and_built_in_agents_can_be_compared(task: Path) -> None:
    skip_without_sandbox()
    variants = {"theirs": {"acp": "fake"}, "ours": ours()}
    exp = Experiment(rows_of(task), variants, primary=wrote, checks=[is_copy], folder=False)
    results = exp.run_sync(show=False)
    table = results.table()
    assert [*table["status"].unique()] == ["completed"], table
    assert (table["wrote"].sum(), table["is_copy"].sum()) == (12, 12)
    assert compare(results, "theirs", "ours").difference == 0
    assert {path.name for path in task.iterdir()} == {"b.txt", ".env"}
    assert exp.design().sandboxes == results.sandboxes == {"theirs": "bubblewrap"}
    lines = [line.split() for line in results_text(results).splitlines()]
    assert [words[-1] for words in lines if words[:1] == ["theirs"]] == ["bubblewrap"]
    assert not [note for note in results.notes if "no tools" in note or "does not have" in note]


@pytest.mark.parametrize("is_outside", [False, True])
def test_agent_sees_only_its_own_settings_and_task_files(task: Path, tmp_path: Path, is_outside: bool) -> None:
    if not is_outside:
        skip_without_sandbox()
    persons = tmp_path / "home" / "notes.txt"
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "config.toml").write_text("model = 1\n")
    reads = ["b.txt", ".env", str(persons), str(TESTS), "~/config.toml"]
    tries = [*[("read", path) for path in reads], *[("write", path) for path in (str(tmp_path / "left"), "~/state", "c.txt")]]
    (task / "tries.json").write_text(json.dumps(tries))
    said: list[str] = []

    def hear(run: Run) -> bool:
        said.append(run.text)
        return run.status == "completed"

    variants = {"theirs": {"acp": "fake", "home": str(tmp_path / "settings")}}
    exp = Experiment(rows_of(task, "tries", 1), variants, primary=hear, folder=False, outside_sandbox=is_outside)
    results = exp.run_sync(show=False)
    assert [row.error for row in results.rows] == [""]
    free = "yes" if is_outside else "no"
    assert said[-1].split() == ["yes", "no", free, free, *["yes"] * 4]  # temporary files are its own
    assert (tmp_path / "left").exists() is is_outside
    assert results.sandboxes == {"theirs": "no sandbox" if is_outside else "bubblewrap"}
    assert not (tmp_path / "settings" / "state").exists()


def test_sandbox_hides_originals_below_system_folders(
    task: Path, tmp_path: Path, table: dict[str, KnownAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without_sandbox()
    monkeypatch.setattr(module, "SYSTEM", {tmp_path.parts[1], "usr"})
    monkeypatch.chdir(tmp_path / "home")
    originals = (task, tmp_path / "exp", Path("/usr"))
    (tmp_path / "exp").mkdir()
    with cell_folders(is_in_sandbox=True, originals=originals) as folders:
        folders.fill({}, "")
        words = folders.around(table["fake"]).command
    hidden = {words[place + 1] for place, word in enumerate(words) if word == "--tmpfs"}
    assert hidden >= {str(tmp_path / name) for name in ("task", "home", "exp")} and "/usr" not in hidden


def test_permission_rules_apply_inside_the_sandbox(task: Path) -> None:
    skip_without_sandbox()
    deny: dict[str, Any] = {"permissions": {"write_file": "deny"}}
    never: dict[str, Any] = {"approve": "never"}
    for settings, options in ((deny, {}), ({}, never)):
        variants = {"theirs": {"acp": "fake", **settings}}
        exp = Experiment(rows_of(task, count=1), variants, primary=wrote, folder=False, **options)
        assert exp.run_sync(show=False).table()["wrote"].tolist() == [0.0]


def test_notebook_functions_can_be_called_from_the_sandbox(task: Path) -> None:
    skip_without_sandbox()

    def total(numbers: list[int]) -> int:
        """Add numbers."""
        return sum(numbers)

    def heard(run: Run) -> bool:
        return run.text == "total: 6"

    variants = {"theirs": {"acp": "fake", "tools": [total]}}
    results = Experiment(rows_of(task, "function", 1), variants, primary=heard, folder=False).run_sync(show=False)
    assert results.table()["heard"].tolist() == [1.0], results.rows[0].error


def test_run_without_row_or_folder_is_repeated(task: Path, tmp_path: Path) -> None:
    def rows() -> list[Row]:
        return (
            Experiment(rows_of(task, count=2), {"ours": ours()}, primary=wrote, folder=tmp_path / "exp")
            .run_sync(show=False)
            .rows
        )

    assert {row.redone for row in rows()} == {""}
    path = tmp_path / "exp" / ROWS
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    again = rows()
    assert [(row.values["wrote"], row.redone) for row in again] == [(1.0, ""), (1.0, "again")]


@pytest.mark.parametrize(("name", "is_part"), [("b.txt", True), ("new.txt", True), (".env", False), (".agentnb", False)])
def test_run_does_not_start_if_its_folder_changed(task: Path, name: str, is_part: bool) -> None:
    exp = Experiment(rows_of(task, count=1), {"ours": ours()}, primary=wrote, folder=False)
    exp.check()
    (task / name).write_text("changed\n")
    (row,) = exp.run_sync(show=False).rows
    assert ("has changed since the experiment began" in row.error) is is_part
    assert (row.status == "completed") is not is_part


def _without_bubblewrap(monkeypatch: pytest.MonkeyPatch, table: dict[str, KnownAgent]) -> None:
    monkeypatch.setattr(sandbox, "PROGRAM", "no-bubblewrap-here")


def _without_agent(monkeypatch: pytest.MonkeyPatch, table: dict[str, KnownAgent]) -> None:
    table["fake"] = replace(table["fake"], command=("no-such-agent",))


def _as_ever(monkeypatch: pytest.MonkeyPatch, table: dict[str, KnownAgent]) -> None:
    skip_without_sandbox()


@pytest.mark.parametrize(
    ("options", "here", "named"),
    [
        (
            {},
            _without_bubblewrap,
            r"Variant theirs: acp:fake: it cannot ask anyone here.*apt-get install bubblewrap.*outside_sandbox",
        ),
        ({}, _without_agent, "Variant theirs: acp:fake is not installed. Install it: nothing to install"),
        ({"models": "simulated:chatty"}, _as_ever, "models= does not apply to acp:fake"),
        ({"executor": "processes"}, _as_ever, "Variant theirs: external agents run in their own processes"),
        ({"agent": {"work_dir": "elsewhere"}}, _as_ever, "Variant theirs: each run works in its own folder"),
        ({"agent": {"system": "Be brief."}}, _as_ever, "Variant theirs: system does not reach acp:fake"),
        ({"variants": {"theirs": {"acp": "fake", "home": "nowhere"}}}, _as_ever, "Variant theirs: 'nowhere' is not a folder"),
        ({"variants": {"ours": {"model": "simulated:chatty", "home": "."}}}, _as_ever, "Variant ours: home= is an external"),
        ({"variants": {"ours": {"model": "simulated:chatty", "hosts": "a.example"}}}, _as_ever, "Variant ours: hosts= are the"),
        (
            {"variants": {"theirs": {"acp": "fake", "hosts": "a.example"}}, "outside_sandbox": True},
            _as_ever,
            "Variant theirs: hosts= applies only inside the sandbox",
        ),
        *[
            ({"variants": {"theirs": {"acp": "fake", "hosts": hosts}}}, _as_ever, "theirs: hosts= is neither a host nor a list")
            for hosts in ([], None, 5, [5])
        ],
        ({"tasks": [{"id": "a", "prompt": "write", "work_dir": "nowhere"}]}, _as_ever, "Task 1: 'nowhere' is not a folder"),
    ],
)
def test_unenforceable_setting_is_refused_by_name(
    task: Path,
    table: dict[str, KnownAgent],
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    here: Callable[..., None],
    named: str,
) -> None:
    here(monkeypatch, table)
    given: dict[str, Any] = {"tasks": rows_of(task), "variants": {"theirs": {"acp": "fake"}}, "folder": False, **options}
    with pytest.raises(ExperimentProblems, match=named):
        Experiment(**given).check()


def test_experiment_id_depends_on_task_and_settings_files(task: Path, tmp_path: Path) -> None:
    (tmp_path / "settings").mkdir()
    variants: dict[str, Any] = {"theirs": {"acp": "fake", "home": str(tmp_path / "settings")}}

    def frozen() -> Any:
        return Experiment(rows_of(task), variants, folder=False, outside_sandbox=True).id

    first = frozen()
    assert frozen() == first
    (task / "b.txt").write_text("gamma\n")
    second = frozen()
    (tmp_path / "settings" / "config.toml").write_text("model = 1\n")
    third = frozen()
    variants["theirs"]["hosts"] = ["a.example"]
    assert len({first, second, third, frozen()}) == 4


@pytest.mark.parametrize(("variant", "count"), [({"acp": "fake"}, 2), ({"model": "simulated:chatty"}, 1)])
def test_experiment_id_depends_on_the_effective_approve_default(task: Path, variant: dict[str, Any], count: int) -> None:
    exps = [Experiment(rows_of(task), {"a": variant}, folder=False, approve=approve) for approve in (None, "never")]
    assert len({exp.id for exp in exps}) == count


def test_yaml_experiment_can_name_external_agents(task: Path) -> None:
    text = f"""
tasks: [{{id: a, prompt: write, work_dir: {task}}}]
variants: {{a: {{acp: fake}}, b: {{acp: "fake:big", home: {task}}}, ours: {{model: "simulated:chatty"}}}}
outside_sandbox: true
"""
    exp = read_experiment(text, {})
    assert exp.design is not None
    assert exp._sandboxes == {"a": "no sandbox", "b": "no sandbox"}
    exp.check()
