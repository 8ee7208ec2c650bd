"""Folders of tasks: files that are copied and hashed, and files that are refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentnb import Experiment
from agentnb.detect.run import Run
from agentnb.errors import ExperimentProblems, SettingsError
from agentnb.experiments.planning.run_folders import files_left_out, folder_content, left_out_of
from agentnb.experiments.views.design_view import design_text


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Create the folder of a task."""
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\n")
    return folder


def experiment_in(work_dir: Path, **settings: Any) -> Experiment:
    rows = [{"id": "t", "prompt": "Go.", "work_dir": str(work_dir)}]
    return Experiment(rows, {"off": "off", "matrix": "matrix"}, "simulated:chatty", **settings)


def test_experiment_logs_do_not_change_the_task_folder(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(task)
    exp = experiment_in(task)
    exp.run_sync(show=False)
    assert experiment_in(task).id == exp.id
    assert (task / ".agentnb" / "experiments" / exp.id).is_dir()
    for folder in ("logs", task / "b" / "logs", task):
        with pytest.raises(ExperimentProblems, match=r"is inside .*, a task's folder"):
            experiment_in(task, folder=folder).check()
    for folder in (".agentnb/logs", "../logs"):
        experiment_in(task, folder=folder).check()


def test_checks_run_in_a_copy_of_the_folder(task: Path) -> None:
    seen: list[Path] = []

    def writes(run: Run, row: Mapping[str, Any]) -> bool:
        folder = Path(row["work_dir"])
        seen.append(folder)
        (folder / "made.txt").write_text((folder / "a.txt").read_text())
        return True

    experiment_in(task, checks=[writes]).check()
    assert seen != [task] and len(seen) == 1 and not seen[0].exists()
    assert [path.name for path in task.iterdir()] == ["a.txt"]


def test_copies_omit_key_files_but_keep_folders(task: Path) -> None:
    kept = ["credentials/a.py", "id_generator/a.py", ".git/refs/heads/id_fix", ".git/refs/heads/id_more/a"]
    left_out = [".env", "id_rsa", "credentials/id_rsa", ".agentnb/runs/a.jsonl"]
    contents = {folder_content(task)}
    for name in (*kept, *left_out):
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text("1\n")
        contents.add(folder_content(task))
    shutil.copytree(task, copy := task.with_name("copy"), ignore=files_left_out)
    assert {name for name in (*kept, *left_out) if (copy / name).exists()} == {*kept}
    assert len(contents) == 1 + len(kept)


def test_python_environments_are_omitted_and_listed(task: Path) -> None:
    before = folder_content(task)
    for name in (".venv", "sub/env"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", task / name], check=True)
    (task / "sub" / ".env").write_text("TOKEN=kept\n")
    assert folder_content(task) == before
    exp = Experiment(
        [{"id": f"t{number}", "prompt": "Go.", "work_dir": str(task)} for number in range(6)],
        {"off": "off", "matrix": "matrix"},
        "simulated:chatty",
        folder=False,
    )
    assert exp.design().left_out == (".venv", "sub/.env", "sub/env")
    assert "Left out of copied task folders: .venv, sub/.env, sub/env." in repr(exp.design())
    assert "3 in all" in design_text(exp.design())


def test_links_to_files_missing_from_copies_are_omitted(task: Path) -> None:
    for name in (".venv/pyvenv.cfg", ".venv/bin/tool", ".env", ".agentnb/runs/a.jsonl", "sub/b.txt"):
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text("1\n")
    before = folder_content(task)
    for name, target in {"tool": "../.venv/bin/tool", "keys": "../.env", "log": "../.agentnb/runs/a.jsonl"}.items():
        (task / "sub" / name).symlink_to(target)
    assert folder_content(task) == before
    assert left_out_of([{"work_dir": str(task)}]) == (".env", ".venv", "sub/keys", "sub/log", "sub/tool")
    (task / "sub" / "kept").symlink_to("b.txt")
    assert folder_content(task) != before


def test_links_in_a_task_folder_never_lead_to_originals(task: Path) -> None:
    (task / "sub").mkdir()
    (task.parent / "b.txt").write_text("beta\n")
    before, link = folder_content(task), task / "link"
    contents = {before}
    for target in ("a.txt", "sub", "nowhere", "link"):
        link.symlink_to(target)
        contents.add(folder_content(task))
        link.unlink()
    assert len(contents) == 5 and folder_content(task) == before
    for target in ("..", "../b.txt", "../nowhere", str(task / "a.txt"), str(task / "sub")):
        link.symlink_to(target)
        with pytest.raises(SettingsError, match="link' links to a place outside the folder"):
            folder_content(task)
        link.unlink()
