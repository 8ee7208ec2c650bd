"""The command that tries real counterparts skips those that are not to be had, and its table says what was tried."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import environments
import pytest
import try_counterparts
from counterpart_cases import Case
from environments import Environment, Missing, environment_of
from try_counterparts import README, Tried, counterparts, tried, with_table

RANGE = re.compile(r"@[~^]?\d|[<>=~]=?\d|<\d")
ROW = {"kind": "imitated", "name": "one", "npm": ["one@1"]}


@pytest.fixture
def own_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path)
    return tmp_path


def imitated(monkeypatch: pytest.MonkeyPatch, cases: Any) -> None:
    monkeypatch.setattr(try_counterparts, "environment_of", lambda row: Environment(Path(), "1.2"))
    monkeypatch.setitem(sys.modules, "imitated", SimpleNamespace(TRIED="a thing", cases=cases))


def cells(readme: str) -> list[list[str]]:
    """Return the cells of the table, line by line."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in readme.splitlines()[4:-2]]


def test_each_row_names_its_packages_with_their_versions(subtests: pytest.Subtests) -> None:
    rows = counterparts(nightly=True)
    assert len({row["name"] for row in rows}) == len(rows)
    assert len(counterparts(["mcp_server"])) >= 25
    for row in rows:
        with subtests.test(row["name"]):
            packages = [*row.get("npm", ()), *row.get("pypi", ())]
            assert packages
            assert [package for package in packages if not RANGE.search(package)] == []


def test_counterparts_that_are_not_tried_keep_their_lines() -> None:
    empty = "before\n<!-- world -->\n<!-- /world -->\nafter"
    one, two = Tried("one", "1.2", "a thing", [Case("a"), Case("b", "it broke")]), Tried("two", "", "a thing", [], "no npm")
    both = with_table(empty, [one, two], ["two", "one"])
    assert cells(both) == [["two", "", "a thing", "0", "skipped: no npm"], ["one", "1.2", "a thing", "2", "1"]]
    again = with_table(both, [two._replace(version="3", cases=[Case("a")], missing="")], ["one", "two"])
    assert cells(again) == [["one", "1.2", "a thing", "2", "1"], ["two", "3", "a thing", "1", "0"]]
    assert cells(with_table(again, [], ["two"])) == [["two", "3", "a thing", "1", "0"]], "a row that is gone has no line"
    assert with_table(README.read_text(encoding="utf-8"), [], [row["name"] for row in counterparts(nightly=True)])


def test_counterpart_that_is_not_to_be_had_is_skipped_with_the_reason(
    own_environments: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match="there is no npm"):
        environment_of(ROW)

    def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
        yield Case("first", "it broke")
        raise Missing("it did not start")

    imitated(monkeypatch, cases)
    assert (tried(ROW).missing, tried(ROW).cases) == ("it did not start", [Case("first", "it broke")])
    assert "skipped one: it did not start" in capsys.readouterr().out


def test_command_fails_for_what_is_not_known_to_fail(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
        yield from (Case("first", "it broke"), Case("second"))

    imitated(monkeypatch, cases)
    monkeypatch.setattr(try_counterparts, "README", tmp_path / "README.md")
    monkeypatch.setattr(sys, "argv", ["try_counterparts.py"])
    for known, code in (({"first": "not built"}, 0), ({"second": "not built"}, 1)):
        (tmp_path / "README.md").write_text("<!-- world -->\n<!-- /world -->", encoding="utf-8")
        monkeypatch.setattr(try_counterparts, "counterparts", lambda *given, known=known, **more: [{**ROW, "known": known}])
        assert try_counterparts.main() == code
        assert ("known to fail one, first: not built" in capsys.readouterr().out) is (code == 0)


def test_driver_whose_own_code_fails_is_a_failure_of_its_counterpart(monkeypatch: pytest.MonkeyPatch) -> None:
    def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
        raise KeyError("call")
        yield

    imitated(monkeypatch, cases)
    assert [case.problem for case in tried(ROW).failures] == ["KeyError: 'call'"]


def test_environment_is_made_once_and_again_for_other_requirements(
    own_environments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        made.append(command[-1])
        package = Path(command[command.index("--prefix") + 1]) / "node_modules/@one/two/package.json"
        package.parent.mkdir(parents=True)
        package.write_text('{"version": "1.7"}')
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(environments.subprocess, "run", run)
    monkeypatch.setattr(environments.shutil, "which", lambda *given, **options: "npm")
    found = [environment_of({"npm": [package]}) for package in ("@one/two@1", "@one/two@1", "@one/two@~1.6")]
    assert made == ["@one/two@1", "@one/two@~1.6"]
    assert {one.version for one in found} == {"1.7"} and {one.folder for one in found} == {own_environments / "one-two"}
