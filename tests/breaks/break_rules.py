"""Break one rule after the other, each in one place, and report which tests notice.

    python tests/breaks/break_rules.py                 every break, against the tests it names
    python tests/breaks/break_rules.py --only budget   the breaks whose rule contains "budget"
    python tests/breaks/break_rules.py --list          the breaks, and whether each still applies; runs no test
    python tests/breaks/break_rules.py --full          every break against the whole suite (hours)

The breaks are in ``rules.toml``, beside this file. Each names a rule in one sentence, a file, a text that occurs in it exactly
once, what to replace it with (a bug that somebody could have written), and the tests that should fail then. To add one, add
an entry and run it with ``--only``.

The files that git knows, and new ones that it does not ignore, are copied to a temporary folder; the working tree is never
changed. The named tests must pass there before anything is broken: otherwise a failure would prove nothing. Browser tests
are left out. Exits with 0 if every break was caught, with 1 if one was not caught or does not apply, with 2 if the tests fail
without any break.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]
RULES = Path(__file__).with_name("rules.toml")
CAUGHT, HANG, MISSED, STALE, UNDECIDED = "caught", "caught (hang)", "NOT CAUGHT", "does not apply", "undecided"
GOOD = frozenset({CAUGHT, HANG})
TESTS_FAILED = 1
"""The exit code of pytest for tests that ran and failed. Others say that nothing was decided, such as 4: no such file."""
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR|SUBFAILED.*?) (tests/.+?)(?: - |$)", re.MULTILINE)
TAIL = 25
"""Lines of pytest's output that are shown where they are needed."""


@dataclass(frozen=True)
class Break:
    """A rule, and a one-place change that breaks it."""

    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    survived: bool = False
    """No test noticed it when the rule was first tried."""

    def problem(self, root: Path) -> str:
        """Return why it does not apply to this tree; empty if it does."""
        path = root / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        if missing := [name for name in self.tests if not (root / name).exists()]:
            return f"there is no {', '.join(missing)}"
        count = path.read_text(encoding="utf-8").count(self.old)
        return "" if count == 1 else f"its text occurs {count} times in {self.file}, not once"


@dataclass(frozen=True)
class Outcome:
    """What came of one break."""

    broken: Break
    verdict: str
    detail: str = ""
    seconds: float = 0.0


def read_breaks(path: Path = RULES) -> list[Break]:
    """Read the breaks. ValueError for two of the same rule, or one that changes nothing."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["break"]
    breaks = [Break(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]
    rules = [one.rule for one in breaks]
    wrong = [one.rule for one in breaks if rules.count(one.rule) > 1 or one.old == one.new or not one.tests]
    if wrong:
        raise ValueError(f"Listed twice, without tests, or without a change: {'; '.join(wrong)}")
    return breaks


def copy_tree(target: Path) -> Path:
    """Copy the files of the working tree that git knows or would add."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source = ROOT / name
        if source.is_file():  # deleted files are still known to git
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def run_pytest(root: Path, tests: Iterable[str], seconds: float, *options: str) -> tuple[int | None, str]:
    """Run tests in a copy; returns pytest's exit code, None after the time-out, and its output."""
    alone = ("-n", "0") if find_spec("xdist") and tests else ()
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", *alone, *options, *tests]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(0)
        return code, output.read()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pytest and what its tests have left running."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all of it has ended
    process.wait()


def write(path: Path, text: str) -> None:
    """Write a module and drop its bytecode, which Python would trust if size and second happen to be the same."""
    path.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def try_break(one: Break, root: Path, *, full: bool, seconds: float) -> Outcome:
    """Break a rule in this copy, run its tests, and restore the file."""
    if problem := one.problem(root):
        return Outcome(one, STALE, problem)
    path, started = root / one.file, monotonic()
    whole = path.read_text(encoding="utf-8")
    write(path, whole.replace(one.old, one.new))
    try:
        code, output = run_pytest(root, () if full else one.tests, seconds, "-x")
    finally:
        write(path, whole)
        shutil.rmtree(root / ".hypothesis", ignore_errors=True)  # examples found with one break must not help with the next
    took = monotonic() - started
    found = FAILED_TEST.search(output)
    if code is None:
        return Outcome(one, HANG, f"not over after {seconds:g} s", took)
    if code == TESTS_FAILED:
        return Outcome(one, CAUGHT, found[1] if found else "", took)
    if code == 0:
        return Outcome(one, MISSED, "whole suite" if full else " ".join(one.tests), took)
    return Outcome(one, UNDECIDED, f"pytest ended with {code}:\n{_tail(output)}", took)


def _tail(output: str) -> str:
    return "\n".join(output.rstrip().splitlines()[-TAIL:])


def check_unbroken(root: Path, breaks: Sequence[Break], *, full: bool, seconds: float) -> str:
    """Run the tests without any break; returns what is wrong, empty if they pass."""
    where = "import agentnb; print(agentnb.__file__)"
    imported = subprocess.run(
        [sys.executable, "-c", where], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    if not Path(imported.stdout.strip()).is_relative_to(root):
        return f"The tests would import {imported.stdout.strip() or 'no agentnb'}, not the copy\n{imported.stderr}"
    tests = () if full else sorted({name for one in breaks for name in one.tests if (root / name).exists()})
    code, output = run_pytest(root, tests, seconds)
    return "" if code == 0 else f"The tests fail without any break:\n{_tail(output)}"


def try_all(breaks: Sequence[Break], copies: Sequence[Path], *, full: bool, seconds: float) -> list[Outcome]:
    """Try the breaks, one at a time in each copy, and print each outcome as soon as it is known."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one_by_one(one: Break) -> Outcome:
        copy = free.get()
        try:
            outcome = try_break(one, copy, full=full, seconds=seconds)
        finally:
            free.put(copy)
        report(outcome)
        return outcome

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one_by_one, breaks))


def report(outcome: Outcome) -> None:
    """Print an outcome as a row of the table."""
    mark = " (survived once)" if outcome.broken.survived else ""
    print(f"{outcome.verdict:<14} {outcome.seconds:5.1f} s  {outcome.broken.rule}{mark}\n{'':24}{outcome.detail}", flush=True)


def list_breaks(breaks: Sequence[Break]) -> int:
    """Print the breaks and whether they apply to the working tree; returns the exit code."""
    for one in breaks:
        problem = one.problem(ROOT)
        print(f"{STALE if problem else 'applies':<14} {one.rule}\n{'':15}{problem or one.file}")
    return int(any(one.problem(ROOT) for one in breaks))


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, try the breaks, print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", action="append", help="only breaks whose rule contains this; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the breaks and whether they still apply; run nothing")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="breaks tried at the same time (default: 1)")
    parser.add_argument("--full", action="store_true", help="run the whole suite for each break, not only the tests it names")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one break (default: 180, with --full 3600)")
    options = parser.parse_args(arguments)
    wanted = [name.casefold() for name in options.only or [""]]
    breaks = [one for one in read_breaks() if any(name in one.rule.casefold() for name in wanted)]
    if not breaks or options.jobs < 1:
        parser.error("--jobs must be at least 1" if breaks else f"No rule contains {' or '.join(options.only)}")
    if options.list:
        return list_breaks(breaks)
    seconds = options.timeout or (3600.0 if options.full else 180.0)
    with tempfile.TemporaryDirectory(prefix="agentnb-breaks-") as folder:
        copies = [copy_tree(Path(folder).resolve() / f"copy-{number}") for number in range(min(options.jobs, len(breaks)))]
        print(f"Breaks to try: {len(breaks)}. First the tests without any ...", flush=True)
        if problem := check_unbroken(copies[0], breaks, full=options.full, seconds=max(seconds, 1800.0)):
            print(problem)
            return 2
        outcomes = try_all(breaks, copies, full=options.full, seconds=seconds)
    bad = [one for one in outcomes if one.verdict not in GOOD]
    print(f"\n{len(outcomes) - len(bad)} of {len(outcomes)} caught")
    for one in bad:
        print(f"{one.verdict}: {one.broken.rule}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
