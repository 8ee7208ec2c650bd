"""Output and exit code of a run of the breaks. The breaks themselves are tried by `make changed-breaks` and `make nightly`."""

from __future__ import annotations

from pathlib import Path

import break_rules
import pytest
from break_rules import CAUGHT, HANG, MISSED, NOT_RUN, STALE, TESTS_FAIL, Outcome, exit_code, summary, try_in_time
from entries import Break
from landing import Landing


def broken(rule: str, file: str = "agentnb/tools/tool.py") -> Break:
    return Break(rule, file, "old", "new", ("tests/tools",))


def outcome(rule: str, verdict: str) -> Outcome:
    return Outcome(broken(rule), verdict)


def test_rules_not_begun_in_time_are_not_run() -> None:
    left = iter([90.0, 20.0, 0.0, -1.0])
    tried: list[tuple[str, float]] = []

    def attempt(row: Break, seconds: float) -> Outcome:
        tried.append((row.rule, seconds))
        return Outcome(row, CAUGHT)

    outcomes = try_in_time(map(broken, ["first", "second", "third", "fourth"]), attempt, lambda: next(left))
    assert tried == [("first", 90.0), ("second", 20.0)]
    assert [row.verdict for row in outcomes] == [CAUGHT, CAUGHT, NOT_RUN, NOT_RUN]


def test_summary_names_what_was_not_caught_and_not_run() -> None:
    outcomes = [outcome("first", CAUGHT), outcome("second", MISSED), outcome("third", NOT_RUN)]
    assert summary(outcomes, 90.0).splitlines() == [
        "1 of 2 caught",
        "NOT CAUGHT: second",
        "Time was up after 90 s: 1 not run",
        "  third",
    ]


def test_exit_code_tells_uncaught_rules_from_failing_tests(subtests: pytest.Subtests) -> None:
    cases = {(CAUGHT, HANG, NOT_RUN): 0, (CAUGHT, MISSED): 1, (STALE,): 1, (MISSED, TESTS_FAIL): 2, (): 0}
    for verdicts, code in cases.items():
        with subtests.test(verdicts):
            assert exit_code(outcome("rule", verdict) for verdict in verdicts) == code


def test_changed_rules_are_named_or_why_there_are_none(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    tools, core = broken("tools"), broken("core", "agentnb/core/view.py")
    cases = {
        Landing("", "there is no git history here"): ([], "No rule is broken: there is no git history here"),
        Landing("base", "HEAD~1", frozenset({"README.md"})): (
            [],
            "No rule is broken: no entry of rules.toml is of a file that changed (files: 1 changed since HEAD~1)",
        ),
        Landing("base", "HEAD~1", frozenset({core.file, tools.file, "README.md"})): (
            [tools, core],
            "Rules of files that changed: 2 (files: 3 changed since HEAD~1)",
        ),
    }
    for landing, expected in cases.items():
        with subtests.test(landing.name):
            monkeypatch.setattr(break_rules, "read_landing", lambda root, landing=landing: landing)
            assert break_rules.choose_changed([core, tools], Path()) == expected


def test_a_landing_fails_for_an_entry_that_does_not_apply(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(break_rules, "read_landing", lambda root: Landing("", "there is no git history here"))
    for file, code in {"agentnb/no_such_file.py": 1, "agentnb/errors.py": 0}.items():
        with subtests.test(file):
            row = Break("rule", file, "class AgentnbError(Exception)", "class Other(Exception)", ("tests/breaks",))
            monkeypatch.setattr(break_rules, "read_breaks", lambda row=row: [row])
            assert break_rules.main(["--changed", "--for-seconds", "90"]) == code
            assert (STALE in capsys.readouterr().out) == bool(code)


def trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *codes: int | None) -> tuple[Path, list[tuple[str, ...]]]:
    """Make a tree with one module, and let pytest end with these codes."""
    answers = iter(codes)
    ran: list[tuple[str, ...]] = []

    def run_pytest(root: Path, tests: list[str], seconds: float, *options: str) -> tuple[int | None, str]:
        ran.append((*tests, *options))
        return next(answers), ""

    monkeypatch.setattr(break_rules, "run_pytest", run_pytest)
    (tmp_path / "tests/tools").mkdir(parents=True)
    (tmp_path / "agentnb/tools").mkdir(parents=True)
    (tmp_path / "agentnb/tools/tool.py").write_text("old")
    return tmp_path, ran


def test_tests_run_once_without_a_break(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root, ran = trial(monkeypatch, tmp_path, 0, 1, 0)
    attempt = break_rules.TimedTrial(root)
    assert [attempt(broken(rule), 90.0).verdict for rule in ("first", "second")] == [CAUGHT, MISSED]
    assert ran == [("tests/tools",), ("tests/tools", "-x"), ("tests/tools", "-x")]


def test_a_rule_that_time_did_not_suffice_for_is_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root, _ = trial(monkeypatch, tmp_path, None, 0, None, 1, None)
    attempt = break_rules.TimedTrial(root)
    assert attempt(broken("in its tests"), 5.0).verdict == NOT_RUN
    assert attempt(broken("in the break"), 5.0).verdict == NOT_RUN
    assert attempt(broken("in time"), 5.0).verdict == CAUGHT
    assert attempt(broken("a hang"), 90.0).verdict == HANG


def test_failing_tests_decide_nothing_about_a_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root, ran = trial(monkeypatch, tmp_path, 1)
    assert break_rules.TimedTrial(root)(broken("rule"), 90.0).verdict == TESTS_FAIL
    assert len(ran) == 1
