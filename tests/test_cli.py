"""The command line: its output and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from asserted_sentences import Snapshot
from scripted_runs import add

from agentnb import Agent, Run, Store, ToolCall, load_trace, load_traces, replay, tables
from agentnb.cli import COMMANDS, main
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.lists.replay_view import replay_text
from agentnb.models import ScriptedModel

RUNS = Path(".agentnb") / "runs"


class Done(NamedTuple):
    """The output of a command, and its exit code."""

    code: int
    out: str
    err: str


Call = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*argv: str) -> Done:
        capsys.readouterr()
        code = main(argv)
        return Done(code, *capsys.readouterr())

    return call


def do(prompt: str = "Add it", folder: Path = RUNS) -> Run:
    model = ScriptedModel([ToolCall("add", {"a": 1}), "Grüße."])
    return Agent(model, tools=[add]).run_sync(prompt, store=Store(folder))


def do_nested() -> Run:
    async def helped() -> str:
        """Has another agent help."""
        return (await Agent(ScriptedModel(["Yes."]), todos=False).run("Nested", store=Store(RUNS))).text

    return Agent(ScriptedModel([ToolCall("helped", {}), "Done."]), tools=[helped]).run_sync("Top", store=Store(RUNS))


def refused(done: Done) -> bool:
    """Return True if it wrote a single line, to standard error."""
    return bool(done.code) and not done.out and done.err.startswith("agentnb: ") and done.err.count("\n") == 1


# The list


def test_runs_of_this_folder_are_listed_newest_first(cli: Call, snapshot: Snapshot) -> None:
    first, second = do("First"), do("Second")
    code, out, err = cli("runs")
    assert (code, err) == (0, "")
    told, *lines = out.splitlines()
    assert told == snapshot
    assert [line.split()[0] for line in lines] == sorted([first.id, second.id], reverse=True)
    assert "Done" in lines[0] and "2 rounds" in lines[0]


def test_folder_may_be_a_log_folder_or_a_project(cli: Call, tmp_path: Path) -> None:
    run = do(folder=tmp_path / "project" / RUNS)
    for folder in ("project", f"project/{RUNS}"):
        assert run.id in cli("runs", folder).out
    assert f"agentnb show {Path('project') / RUNS / 'ID.jsonl'}" in cli("runs", "project").out


def test_list_can_be_short_and_filtered(cli: Call) -> None:
    for word in ("One", "Two", "Three"):
        do(f"Count {word}")
    assert len(cli("runs", "-n", "2").out.splitlines()) == 3 and ", the newest 2." in cli("runs", "-n", "2").out
    (line,) = cli("runs", "-w", "count", "-w", "two").out.splitlines()[1:]
    assert line.endswith("Count Two")


def test_nested_runs_are_listed_on_request(cli: Call) -> None:
    do_nested()
    (top,) = cli("runs").out.splitlines()[1:]
    assert top.endswith("Top  (1 nested)")
    assert [line.split("  ")[-1].strip() for line in cli("runs", "--nested").out.splitlines()[1:]] == ["(1 nested)", "↳ Nested"]


def test_foreign_files_in_a_store_are_named(cli: Call) -> None:
    run = do()
    for number in range(7):
        (RUNS / f"2020010{number}-000000-0000000000.jsonl").write_text("{broken\n")
    code, out, err = cli("runs")
    assert code == 0 and run.id in out
    first, *lines = err.splitlines()
    assert "7 left out" in first and len(lines) == 6
    assert "20200106-000000-0000000000.jsonl: no readable run log" in lines[0] and "2 more" in lines[-1]


def test_list_without_runs_is_empty_and_succeeds(cli: Call) -> None:
    assert cli("runs") == (0, "0 runs in .agentnb/runs\n", "")
    assert cli("table", "runs").out.startswith("run_id,")


# One run


def test_run_is_shown_by_id_suffix_or_file(cli: Call) -> None:
    run = do()
    for name in (run.id, run.id[-8:], f"…{run.id[-4:]}", str(RUNS / f"{run.id}.jsonl")):
        assert cli("show", name) == (0, run_text(run) + "\n", "")


def test_run_can_be_shown_as_a_web_page(cli: Call) -> None:
    run = do()
    assert cli("show", run.id, "--html").out == page_html(run)
    assert cli("show", run.id, "-o", "run.html") == cli("show", run.id, "--html", "-o", "page") == (0, "", "")
    assert Path("run.html").read_text("utf-8") == Path("page").read_text("utf-8") == page_html(run)
    cli("show", run.id, "-o", "run.txt")
    assert Path("run.txt").read_text("utf-8") == run_text(run) + "\n"


# Files of any format


def several(path: str = "made.jsonl") -> list[Run]:
    """Write three conversations into one file, as another product does."""
    said = [[{"role": "user", "content": f"Task {n}"}, {"role": "assistant", "content": f"Answer {n}"}] for n in range(3)]
    lines = [json.dumps({"messages": messages}) for messages in said]
    Path(path).write_text("\n".join(lines) + "\n", "utf-8")
    return [*load_traces(path)]


def test_file_with_several_runs_is_listed_and_one_shown(cli: Call, snapshot: Snapshot) -> None:
    runs = several()
    code, out, err = cli("show", "made.jsonl")
    told, *lines = out.splitlines()
    assert (code, err) == (0, "") and told == snapshot
    assert [line.split()[:2] for line in lines] == [[str(n + 1), run.id[-8:]] for n, run in enumerate(runs)]
    for which in ("2", runs[1].id[-8:]):
        assert cli("show", "made.jsonl", "--run", which).out == run_text(runs[1]) + "\n"
    assert refused(cli("show", "made.jsonl", "--run", "9")) and refused(cli("show", "made.jsonl", "-o", "x.html"))


def test_example_can_be_shown_listed_and_tabulated_by_name(cli: Call) -> None:
    assert cli("show", "simple-fail").out == run_text(load_trace("simple-fail")) + "\n"
    assert "Tell five bedtime stories" in cli("runs", "simple-fail").out
    assert pd.read_csv(StringIO(cli("table", "runs", "simple-fail", "healthy").out))["rounds"].tolist() == [6, 9]


def test_runs_command_lists_any_format_and_names_omissions(cli: Call) -> None:
    Path("traces").mkdir()
    several("traces/made.jsonl")
    Path("traces/notes.txt").write_text("none", "utf-8")
    code, out, err = cli("runs", "traces", "-n", "2", "-w", "task")
    assert code == 0 and out.startswith("1 to 2 of 3 runs in traces. Show one: agentnb show FILE --run ID\n")
    assert "made.jsonl" in out and "1 left out:" in err and "notes.txt" in err and "Tried" not in err
    assert cli("runs", "traces", "-w", "task 2").out.count("Task") == 1
    assert pd.read_csv(StringIO(cli("table", "runs", "traces").out)).shape[0] == 3


def test_damaged_file_is_refused_unless_read_with_loose_option(cli: Call) -> None:
    several()
    text = Path("made.jsonl").read_text("utf-8")
    Path("made.jsonl").write_text(text.replace('"Task 1"', '"Task 1'), "utf-8")
    for argv in (["table", "runs", "made.jsonl"], ["show", "made.jsonl", "--run", "1"]):
        done = cli(*argv)
        assert refused(done) and "--loose" in done.err and "load_traces" not in done.err
        assert cli(*argv, "--loose").code == 0
    assert "load_traces" not in cli("show", "made.jsonl").err


# Tables


def test_table_is_written_as_csv(cli: Call) -> None:
    run = do()
    for argv in ([], [run.id], ["."], [str(RUNS)], [str(RUNS / "*.jsonl")]):
        code, out, _ = cli("table", "tool_calls", *argv)
        assert code == 0 and pd.read_csv(StringIO(out))["name"].tolist() == ["add"]
    assert cli("table", "tool_calls", "-o", "calls.csv").out == ""
    assert Path("calls.csv").read_text("utf-8") == out


def test_every_table_can_be_written(subtests: pytest.Subtests, cli: Call) -> None:
    do()
    for name in tables.NAMES:
        with subtests.test(name):
            assert list(pd.read_csv(StringIO(cli("table", name).out)).columns) == list(getattr(tables, name)(RUNS).columns)


def test_parquet_without_its_package_is_refused(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    do()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = cli("table", "runs", "-o", "runs.parquet")
    assert refused(done) and done.code == 1 and "pip install 'agentnb[scale]'" in done.err
    assert not Path("runs.parquet").exists()


def test_table_is_written_as_parquet(cli: Call) -> None:
    pytest.importorskip("pyarrow", reason="the extra scale is not installed")
    run = do()
    assert cli("table", "rounds", "-o", "rounds.parquet") == (0, "", "")
    assert pd.read_parquet("rounds.parquet")["text"].tolist() == tables.rounds(run)["text"].tolist()


def test_foreign_file_is_named_and_the_rest_is_written(cli: Call) -> None:
    do()
    (RUNS / "broken.jsonl").write_text("hello\n")
    code, out, err = cli("table", "runs")
    assert code == 0 and len(out.splitlines()) == 2
    assert err.startswith("agentnb: Left out: ") and "broken.jsonl" in err and err.count("\n") == 1


# Errors


def test_usage_error_is_one_line_with_exit_code_2(subtests: pytest.Subtests, cli: Call) -> None:
    for argv, told in {
        (): "Commands: runs, show, table",
        ("rnus",): "Did you mean runs?",
        ("--odd",): "agentnb --help",
        ("show",): "agentnb show --help",
        ("show", "."): "agentnb runs . lists",
        ("runs", "-n", "0"): "'0' is not a whole number of at least 1",
        ("table", "usge"): "Did you mean usage",
        ("table", "runs", "-o", "runs.xls"): ".csv or .parquet",
        ("show", ""): "Argument ID|FILE: it is empty. agentnb show --help",
        ("show", " "): "Argument ID|FILE: it is empty",
        ("show", "x", "-o", ""): "Argument -o: it is empty",
        ("runs", ""): "Argument FOLDER: it is empty",
        ("table", "runs", ""): "Argument PATH: it is empty",
        ("show", "~nobody-of-this-name/x"): "There is no user '~nobody-of-this-name' with a home folder",
    }.items():
        with subtests.test(argv=argv):
            done = cli(*argv)
            assert refused(done) and done.code == 2 and told in done.err


def test_input_output_errors_are_one_line_with_exit_code_1(subtests: pytest.Subtests, cli: Call) -> None:
    run = do()
    Path("broken.jsonl").write_text("hello\n")
    for argv, told in {
        ("show", "unknown"): "There is no run 'unknown'",
        ("show", "missing.jsonl"): "agentnb runs lists the runs",
        ("show", "missing.json"): "There is no file missing.json",
        ("table", "runs", "traces/missing"): "There is no file traces/missing",
        ("show", "broken.jsonl"): "broken.jsonl",
        ("show", "x" * 300): "File name too long",
        ("show", run.id, "-o", "."): "The run cannot be saved as .",
        ("runs", "nowhere"): "There is no folder nowhere",
        ("table", "runs", "x*.jsonl"): "No file matches",
        ("table", "runs", "-o", "broken.jsonl/runs.csv"): "The table cannot be saved as broken.jsonl/runs.csv: its folder",
        ("table", "runs", "-o", "broken.jsonl/such/x.csv"): "cannot be created (Not a directory). Choose another name",
    }.items():
        with subtests.test(argv=argv):
            done = cli(*argv)
            assert refused(done) and done.code == 1 and told in done.err and "%agent" not in done.err


def test_interrupt_prints_no_traceback(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(given: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "runs", COMMANDS["runs"]._replace(do=interrupted))
    assert cli("runs") == (130, "", "")


# Standard output


def test_run_text_cannot_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(TextIOWrapper):
        def isatty(self) -> bool:
            return True

    run = do("Clear\x1b[2J")
    for argv in (["runs"], ["show", run.id], ["table", "runs"], ["show", run.id, "--html"]):
        monkeypatch.setattr(sys, "stdout", Terminal(shown := BytesIO(), encoding="ascii"))
        assert main(argv) == 0
        assert shown.getvalue() and b"\x1b" not in shown.getvalue()


def test_pipe_gets_utf_8_with_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    run = do()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(written := BytesIO(), encoding="ascii"))
    assert main(["show", run.id]) == 0
    assert "Grüße." in written.getvalue().decode("utf-8")


# The program


def test_help_lists_and_explains_every_command(subtests: pytest.Subtests, capsys: pytest.CaptureFixture[str]) -> None:
    for argv, told in {
        ("--help",): list(COMMANDS),
        **{(name, "--help"): ["examples:", f"agentnb {name}"] for name in COMMANDS},
    }.items():
        with subtests.test(argv=argv), pytest.raises(SystemExit) as ended:
            main(argv)
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert all(one in shown for one in told)


def test_console_script_points_to_main() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["scripts"]["agentnb"].partition(":")
    assert getattr(import_module(module), name) is main


def test_closed_pipe_prints_no_error_and_loads_nothing_heavy() -> None:
    do()
    reader, writer = os.pipe()
    os.close(reader)
    heavy = ("IPython", "ipywidgets", "pandas", "anthropic", "openai", "jsonschema")
    code = (
        "import runpy, sys\nsys.argv = ['agentnb', 'runs']\n"
        "try: runpy.run_module('agentnb', run_name='__main__')\n"
        f"finally: print([one for one in {heavy} if one in sys.modules], file=sys.stderr)"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "[]\n")


def test_missing_standard_output_is_reported_in_one_line(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    run = do()
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["show", run.id]) == 1
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["show", run.id]) == 1


def test_unknown_home_folder_is_reported_in_one_line(cli: Call) -> None:
    for command in (("show", "~nobody-of-this-name/x"), ("table", "runs", "~nobody-of-this-name/x")):
        done = cli(*command)
        assert done.code == 2 and "Traceback" not in done.err and done.err.count("\n") == 1


def test_replay_command_prints_the_replay_with_its_options(cli: Call) -> None:
    found = cli("replay", "complex-fails", "--workflow-mode")
    assert found.code == 0 and found.out == replay_text(replay("complex-fails", workflow_mode=True)) + "\n"
    assert cli("replay", "simple-fail", "-p", "minimal", "-g", "off").out.startswith(
        "Replay under guidance off, policy minimal"
    )


def test_replay_accepts_a_run_a_limit_and_guidance_markdown(cli: Call, snapshot: Snapshot) -> None:
    run = do()
    Path("brief.md").write_text("Call a tool.", encoding="utf-8")
    found = cli("replay", run.id[-6:], "-g", "brief.md", "--max-rounds", "1")
    assert "guidance brief, policy matrix, max_rounds 1" in found.out
    assert "The run would have ended after round 1 (max_rounds), 1 round before the recording ends." in found.out
    wrong = cli("replay", "healthy", "-g", "brif.md")
    assert wrong.code == 2
    assert wrong.err == snapshot
