"""The fixture ``snapshot``: sentences of a room are in its ``sentences.toml``, renewed by ``--renew-sentences``."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

Value = str | list[str]
Entries = dict[str, dict[str, dict[str, Value]]]
"""By the name of a test file, of a test, of a case."""
RENEW = "--renew-sentences"


class Snapshot:
    """Equal to the text, or list of texts, that the room's file has for this test: one for each comparison, in their order.

    ``snapshot("a case")`` has an entry of that name. ``snapshot(RUN=run.id)`` has ``RUN`` where the text has that id.
    ``pytest.raises(ValueError, check=snapshot.worded)`` compares what an error says.
    """

    def __init__(self, sentences: Sentences, path: Path, test: str) -> None:
        self._sentences, self._path, self._test = sentences, path, test
        self._compared = 0

    def __call__(self, case: str = "", **placeholders: object) -> Expected:
        return Expected(self, case, {name: str(value) for name, value in placeholders.items()})

    def __eq__(self, actual: object) -> bool:
        __tracebackhide__ = True
        return self() == actual

    __hash__ = object.__hash__

    def worded(self, error: BaseException) -> bool:
        """Compare what an error says."""
        __tracebackhide__ = True
        return self().worded(error)

    def _entry(self, case: str, actual: Value) -> Value | None:
        self._compared += not case
        return self._sentences.entry(self._path, self._test, case or str(self._compared), actual)


class Expected:
    """An entry, to be compared once."""

    def __init__(self, snapshot: Snapshot, case: str, placeholders: dict[str, str]) -> None:
        self._snapshot, self._case, self._placeholders = snapshot, case, placeholders

    def __eq__(self, actual: object) -> bool:
        __tracebackhide__ = True
        if isinstance(actual, str):
            value: Value = self._with_placeholders(actual)
        elif isinstance(actual, list | tuple) and all(isinstance(text, str) for text in actual):
            value = [self._with_placeholders(text) for text in actual]
        else:
            raise AssertionError(f"A snapshot is of a text or of texts, not of {actual!r}")
        entry = self._snapshot._entry(self._case, value)
        if entry != value:
            raise AssertionError(_difference(entry, value))
        return True

    __hash__ = object.__hash__

    def worded(self, error: BaseException) -> bool:
        """Compare what an error says."""
        __tracebackhide__ = True
        return str(error) == self

    def _with_placeholders(self, text: str) -> str:
        for name, value in self._placeholders.items():
            text = text.replace(value, name)
        return text


class Sentences:
    """The entries of all rooms; what the tests of this process used, and with xdist those of each worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.tests = config.rootpath / "tests"
        self.renew = bool(config.getoption(RENEW))
        self.used: dict[str, Entries] = {}
        self.collected: set[str] = set()
        self.outcomes: dict[str, set[str]] = {}
        self.files: dict[str, Entries] = {}
        self.unused: list[str] = []

    def entry(self, path: Path, test: str, case: str, actual: Value) -> Value | None:
        """Return the entry of a case, which is the actual text if sentences are renewed."""
        room = self._room(path)
        known = self.used.setdefault(room, {}).setdefault(path.stem, {}).setdefault(test, {})
        if not self.renew:
            known[case] = actual
            return self._read(room).get(path.stem, {}).get(test, {}).get(case)
        return known.setdefault(case, actual)  # cases of one name must have one text

    def _room(self, path: Path) -> str:
        folder = path.relative_to(self.tests).parts[0]
        return folder if (self.tests / folder).is_dir() else "."

    def _read(self, room: str) -> Entries:
        if room not in self.files:
            file = self.tests / room / "sentences.toml"
            self.files[room] = tomllib.loads(file.read_text("utf-8")) if file.exists() else {}
        return self.files[room]

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Know every test, also those that other plugins deselect."""
        self.collected.update(item.nodeid for item in items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how each test went."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes.setdefault(report.nodeid, set()).add(report.outcome)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker used; without a report if it died."""
        told = getattr(node, "workeroutput", {}).get("sentences", {"used": {}, "collected": []})
        self.collected.update(told["collected"])
        for room, files in told["used"].items():
            for file, tests in files.items():
                for test, cases in tests.items():
                    self.used.setdefault(room, {}).setdefault(file, {}).setdefault(test, {}).update(cases)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Renew the files, or fail for entries that no test uses."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["sentences"] = {"used": self.used, "collected": sorted(self.collected)}
            return
        partly = any("::" in argument for argument in session.config.args)
        tests = {} if partly else self._tests()
        paths = {node.partition("::")[0] for node in self.collected}
        for room in {self._room(session.config.rootpath / path) for path in paths if path.startswith("tests/")}:
            self._settle(room, tests)
        if self.unused and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _tests(self) -> dict[tuple[str, str], bool]:
        """Return for each test, of its file's stem and its name, whether it passed with each of its parameters."""
        tests: dict[tuple[str, str], bool] = {}
        for node in self.collected:
            path, _, name = node.partition("::")
            key = Path(path).stem, _bare(name)
            tests[key] = tests.get(key, True) and self.outcomes.get(node) == {"passed"}
        return tests

    def _settle(self, room: str, tests: dict[tuple[str, str], bool]) -> None:
        stored, used = self._read(room), self.used.get(room, {})
        files = {path.stem for path in (self.tests / room).rglob("test_*.py")}
        collected = {file for file, _ in tests}
        entries = [(file, name, case) for file, of in stored.items() for name in of for case in of[name]]
        for file, test, case in entries:
            needed = tests.get((file, test)) is not True or case in used.get(file, {}).get(test, {})
            if file not in files or (file in collected and (file, test) not in tests) or not needed:
                self.unused.append(f"tests/{room}/sentences.toml: {file}.{test} {case}")
                del stored[file][test][case]
        if self.renew:
            self.unused.clear()
            for file in used:
                for test, cases in used[file].items():
                    stored.setdefault(file, {}).setdefault(test, {}).update(cases)
            if stored:
                (self.tests / room / "sentences.toml").write_text("\n".join(_written(stored)), "utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the entries that no test uses."""
        for name in self.unused:
            terminalreporter.write_line(f"{name} is used by no test. Remove it: pytest PATH {RENEW}")


def _bare(name: str) -> str:
    return re.sub(r"\[.*", "", name, flags=re.DOTALL).rpartition("::")[2]


def _difference(entry: Value | None, actual: Value) -> str:
    before, after = (
        [] if value is None else value.splitlines() if isinstance(value, str) else value for value in (entry, actual)
    )
    what = "There is no such sentence yet" if entry is None else "The sentence differs"
    lines = difflib.unified_diff(before, after, "stored", "now", lineterm="", n=1)
    return "\n".join([f"{what}. To renew it: pytest PATH {RENEW}, then read the difference", *lines])


def _written(entries: Entries) -> Iterable[str]:
    for stem in sorted(entries):
        for test in sorted(entries[stem]):
            if cases := entries[stem][test]:
                yield f"[{stem}.{test}]"
                ordered = sorted(cases, key=lambda case: (not case.isdigit(), int(case) if case.isdigit() else 0, case))
                yield from (f"{case if case.isdigit() else _quoted(case)} = {_value(cases[case])}" for case in ordered)
                yield ""


def _value(value: Value) -> str:
    if isinstance(value, list):
        return "[\n" + "".join(f"  {_quoted(text)},\n" for text in value) + "]"
    if "\n" not in value.rstrip("\n") or '"""' in value or value.endswith('"'):
        return _quoted(value)
    return '"""\n' + "\n".join(_quoted(line, literal=False)[1:-1].replace('\\"', '"') for line in value.split("\n")) + '"""'


def _quoted(text: str, *, literal: bool = True) -> str:
    if literal and '"' in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
