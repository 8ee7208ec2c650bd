"""``%traces`` and the trace browser in an unattended kernel: prints, variables and displays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot

FILES = {
    "good.jsonl": '{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}\n' * 2,
    "bad.txt": "nothing",
}


@pytest.fixture(scope="module")
def folder(kernel: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("traces")
    for name, text in FILES.items():
        (target / name).write_text(text, "utf-8")
    return target


def shown(cell: Any) -> str:
    return cell.result.get("text/html", "")


def value(kernel: Any, expression: str) -> Any:
    return json.loads(kernel.run(f"import json; print(json.dumps({expression}))").printed)


def test_example_is_loaded_into_variables_and_shown_with_findings(kernel: Any) -> None:
    cell = kernel.run("%traces complex-fails")
    assert cell.status == "ok" and cell.printed == "1 run of sam, in runs and run\n"
    assert "agentnb-browser" in shown(cell) and "4 findings of one kind" in shown(cell)
    assert "widget" not in json.dumps(cell.result)  # nobody can click
    assert value(kernel, "[len(runs), run.origin.format, len(run.rounds)]") == [1, "sam", 7]
    assert "Research whether" in cell.result["text/plain"]


def test_folder_is_read_and_skipped_files_are_counted(kernel: Any, folder: Path, snapshot: Snapshot) -> None:
    cell = kernel.run(f"%traces {folder} -o many")
    assert cell.printed == snapshot
    assert "bad.txt" in kernel.run("many.problems[0]").result["text/plain"]
    assert value(kernel, "[len(many), len(many.problems)]") == [2, 1]


def test_run_list_and_browse_show_the_same_runs(kernel: Any, folder: Path) -> None:
    listed = kernel.run(f"import agentnb; many = agentnb.load_traces({str(folder / 'good.jsonl')!r}); many")
    browsed = kernel.run("agentnb.browse(many)")
    assert shown(listed) == shown(browsed) and "many[0]" not in shown(listed)
    assert kernel.run("agentnb.browse('healthy').run.origin.format").result["text/plain"] == "'sam'"
    assert kernel.run("agentnb.load_traces([])").result["text/plain"] == "0 runs"


def test_runs_are_imported_once_and_duplicates_ask_for_a_choice(kernel: Any) -> None:
    assert "Imported into .agentnb/runs: 1 added" in kernel.run("%traces healthy --import").printed
    asked = kernel.run("%traces healthy --import")
    assert asked.status == "error" and "This run is already in .agentnb/runs" in asked.error
    for choice, expected in {
        "new": "1 under a new id",
        "skip": "1 skipped",
        "replace": "1 replaced",
        "merge": "1 merged",
    }.items():
        command = f"%traces healthy --import --existing {choice}"
        assert command in asked.error
        assert expected in kernel.run(command).printed
    assert "2 runs of sam" in kernel.run("%traces").printed


def test_folder_without_traces_explains_what_its_files_lack(kernel: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(FILES["bad.txt"], "utf-8")
    printed = kernel.run(f"%traces {tmp_path}").printed.splitlines()
    assert printed[0].startswith("0 runs in ") and "bad.txt" in printed[-1] and "Tried" not in printed[-1]


def test_mistake_is_reported_in_one_line_with_a_suggestion(kernel: Any, folder: Path, subtests: pytest.Subtests) -> None:
    damaged = folder.parent / "damaged.jsonl"
    damaged.write_text(FILES["good.jsonl"] + '{"messages": [\n' + FILES["good.jsonl"], "utf-8")
    for line, expected in {
        "complex-fial": "complex-fails",
        "healthy --existing new": "--import",
        "--lose": "--loose",
        f"{folder / 'bad.txt'}": "is not in a format",
        f"{damaged}": f"%traces {damaged} --loose",
    }.items():
        with subtests.test(line):
            cell = kernel.run(f"%traces {line}")
            assert cell.status == "error" and expected in cell.error and "Traceback" not in str(cell.outputs)
    assert "4 runs of" in kernel.run(f"%traces {damaged} --loose").printed


def test_examples_files_and_options_are_completed(kernel: Any, folder: Path) -> None:
    def complete(code: str) -> list[str]:
        return list(kernel.client.complete(code, len(code), reply=True, timeout=30)["content"]["matches"])

    assert complete("%traces compl") == ["complex-fails"]
    assert f"{folder}/good.jsonl" in complete(f"%traces {folder}/g")
    assert complete("%traces healthy --existing s") == ["skip"] and complete("%traces healthy --im") == ["--import"]


def test_compared_runs_are_shown_side_by_side(kernel: Any) -> None:
    cell = kernel.run("agentnb.diff(agentnb.load_trace('simple-fail'), agentnb.load_trace('healthy'))")
    assert "agentnb-diff" in shown(cell) and "They diverge at round 1 of a" in cell.result["text/plain"]
