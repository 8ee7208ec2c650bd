"""Break one rule after the other, each in one place, and report which tests notice.

    python tests/breaks/break_rules.py                 every break, against the tests it names
    python tests/breaks/break_rules.py --only budget   the breaks whose rule contains "budget"
    python tests/breaks/break_rules.py --changed       the breaks of files that change with what lands, in order of danger
    python tests/breaks/break_rules.py --nightly       sixty drawn by the date, and those that no night has tried for two weeks
    python tests/breaks/break_rules.py --list          the breaks, and whether each still applies; runs no test
    python tests/breaks/break_rules.py --full          every break against the whole suite (hours)

The breaks are in ``rules.toml``, beside this file. Each names a rule in one sentence, a file, a text that occurs in it exactly
once, what to replace it with (a bug that somebody could have written), and the tests that should fail then. To add one, add
an entry and run it with ``--only``.

The files that git knows, and new ones that it does not ignore, are copied to a temporary folder; the working tree is never
changed. The named tests must pass there before anything is broken: otherwise a failure would prove nothing. Browser tests
are left out. Exits with 0 if every break was caught, with 1 if one was not caught or does not apply, with 2 if the tests fail
without any break.

``--for-seconds 90`` is for a landing: within that time, rules are broken in order of danger (``choice.py``), each after its own
tests have passed; the rules that the time did not suffice for are listed, and are no failure. With ``--changed``, an entry that
does not apply is a failure whatever file it is of; without a commit to compare with, nothing else is tried (``landing.py``).
``--nightly`` keeps the day of each rule's last run in a file that git ignores; without that file, only the drawn are tried.
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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from choice import by_danger, of_files, of_night, read_last_runs
from entries import Break, read_breaks
from landing import read_landing

ROOT = Path(__file__).resolve().parents[2]
LAST_RUNS = ROOT / ".break_rules_cache.json"
CAUGHT, HANG, MISSED, STALE, UNDECIDED = "caught", "caught (hang)", "NOT CAUGHT", "does not apply", "undecided"
TESTS_FAIL, NOT_RUN = "tests fail", "not run"
GOOD = frozenset({CAUGHT, HANG, NOT_RUN})
TESTS_FAILED = 1
"""The exit code of pytest for tests that ran and failed. Others say that nothing was decided, such as 4: no such file."""
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR|SUBFAILED.*?) (tests/.+?)(?: - |$)", re.MULTILINE)
HANG_SECONDS = 30.0
"""Seconds after which the tests of a broken rule count as hanging, where the time of all rules together is limited."""
TAIL = 25
"""Lines of pytest's output that are shown where they are needed."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of one break."""

    broken: Break
    verdict: str
    detail: str = ""
    seconds: float = 0.0


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
            end_group(process)
        output.seek(0)
        return code, output.read()


def end_group(process: subprocess.Popen[bytes]) -> None:
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


def wrong_import(root: Path) -> str:
    """Return the problem if the tests would not import the copy, else an empty text."""
    where = "import agentnb; print(agentnb.__file__)"
    imported = subprocess.run(
        [sys.executable, "-c", where], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    if Path(imported.stdout.strip()).is_relative_to(root):
        return ""
    return f"The tests would import {imported.stdout.strip() or 'no agentnb'}, not the copy\n{imported.stderr}"


def check_unbroken(root: Path, breaks: Sequence[Break], *, full: bool, seconds: float) -> str:
    """Run the tests without any break; returns what is wrong, empty if they pass."""
    tests = () if full else sorted({name for one in breaks for name in one.tests if (root / name).exists()})
    code, output = run_pytest(root, tests, seconds)
    return "" if code == 0 else f"The tests fail without any break:\n{_tail(output)}"


class TimedTrial:
    """Tries single breaks, each after those of its tests that have not yet passed without a break."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.passed: dict[str, float] = {}
        """Tests that have passed, and the seconds of their run at most."""

    def __call__(self, one: Break, seconds: float) -> Outcome:
        """Try a break; its outcome is `NOT_RUN` if the seconds do not suffice."""
        if problem := one.problem(self.root):
            return Outcome(one, STALE, problem)
        end = monotonic() + seconds
        if tests := [name for name in one.tests if name not in self.passed]:
            started = monotonic()
            code, output = run_pytest(self.root, tests, seconds)
            if code is None:
                return Outcome(one, NOT_RUN, "time was up while its tests ran without a break", seconds)
            if code:
                return Outcome(one, TESTS_FAIL, f"without any break:\n{_tail(output)}", monotonic() - started)
            self.passed |= dict.fromkeys(tests, monotonic() - started)
        left = end - monotonic()
        hang = max(HANG_SECONDS, 3 * sum(self.passed[name] for name in one.tests))
        outcome = try_break(one, self.root, full=False, seconds=max(0.0, min(left, hang)))
        if outcome.verdict == HANG and left < hang:
            return Outcome(one, NOT_RUN, "time was up before its tests had failed", outcome.seconds)
        return outcome


def try_in_time(
    breaks: Iterable[Break], attempt: Callable[[Break, float], Outcome], left: Callable[[], float]
) -> list[Outcome]:
    """Try the breaks in their order while time is left, and print the outcome of each that was begun."""
    outcomes = []
    for one in breaks:
        if (seconds := left()) > 0:
            outcomes.append(attempt(one, seconds))
            report(outcomes[-1])
        else:
            outcomes.append(Outcome(one, NOT_RUN, "time was up"))
    return outcomes


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


def summary(outcomes: Sequence[Outcome], seconds: float | None = None) -> str:
    """Return the number of caught breaks, the missed ones, and those that the time did not suffice for."""
    bad = [row for row in outcomes if row.verdict not in GOOD]
    left_out = [row for row in outcomes if row.verdict == NOT_RUN]
    ran = len(outcomes) - len(left_out)
    lines = [f"{ran - len(bad)} of {ran} caught", *(f"{row.verdict}: {row.broken.rule}" for row in bad)]
    if left_out:
        lines += [f"Time was up after {seconds:g} s: {len(left_out)} not run", *(f"  {row.broken.rule}" for row in left_out)]
    return "\n".join(lines)


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 2 if tests failed without a break, 1 if a break was not caught or does not apply, else 0."""
    verdicts = {row.verdict for row in outcomes}
    return 2 if TESTS_FAIL in verdicts else int(bool(verdicts - GOOD))


def list_breaks(breaks: Sequence[Break]) -> int:
    """Print the breaks and whether they apply to the working tree; returns the exit code."""
    for one in breaks:
        problem = one.problem(ROOT)
        print(f"{STALE if problem else 'applies':<14} {one.rule}\n{'':15}{problem or one.file}")
    return int(any(one.problem(ROOT) for one in breaks))


def choose_changed(breaks: Sequence[Break], root: Path) -> tuple[list[Break], str]:
    """Return the breaks of the files that change with what lands, and a sentence about them."""
    landing = read_landing(root)
    if not landing.base:
        return [], f"No rule is broken: {landing.name}"
    chosen = of_files(breaks, landing.files)
    count = f"{len(landing.files)} changed since {landing.name}"
    return chosen, f"Rules of files that changed: {len(chosen)} (files: {count})" if chosen else (
        f"No rule is broken: no entry of rules.toml is of a file that changed (files: {count})"
    )


def try_chosen(breaks: Sequence[Break], options: argparse.Namespace, started: float) -> int:
    """Try the breaks in copies of the tree and print the table; returns the exit code."""
    with tempfile.TemporaryDirectory(prefix="agentnb-breaks-") as folder:
        copies = [copy_tree(Path(folder).resolve() / f"copy-{number}") for number in range(min(options.jobs, len(breaks)))]
        if problem := wrong_import(copies[0]):
            print(problem)
            return 2
        if options.for_seconds is not None:
            outcomes = try_in_time(breaks, TimedTrial(copies[0]), lambda: started + options.for_seconds - monotonic())
        else:
            seconds = options.timeout or (3600.0 if options.full else 180.0)
            print(f"Breaks to try: {len(breaks)}. First the tests without any ...", flush=True)
            if problem := check_unbroken(copies[0], breaks, full=options.full, seconds=max(seconds, 1800.0)):
                print(problem)
                return 2
            outcomes = try_all(breaks, copies, full=options.full, seconds=seconds)
    if options.nightly:
        last = read_last_runs(LAST_RUNS, date.today())
        last.days |= {row.broken.rule: date.today() for row in outcomes if row.verdict != NOT_RUN}
        last.write(LAST_RUNS)
    print(f"\n{summary(outcomes, options.for_seconds)}")
    return exit_code(outcomes)


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; ends the program if it makes no sense."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--only", metavar="NAME", action="append", help="only breaks whose rule contains this; may be repeated")
    choice.add_argument("--changed", action="store_true", help="only breaks of files that change with what lands")
    choice.add_argument(
        "--nightly", action="store_true", help="only those drawn by the date, and those not tried for two weeks"
    )
    parser.add_argument("--list", action="store_true", help="list the breaks and whether they still apply; run nothing")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="breaks tried at the same time (default: 1)")
    parser.add_argument("--full", action="store_true", help="run the whole suite for each break, not only the tests it names")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one break (default: 180, with --full 3600)")
    parser.add_argument("--for-seconds", type=float, metavar="SECONDS", help="for all together, in order of danger; one job")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    if options.for_seconds is not None and (options.full or options.jobs > 1 or options.timeout):
        parser.error("--for-seconds goes with neither --full nor --jobs nor --timeout")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, choose and try the breaks; returns the exit code."""
    started, options = monotonic(), read_options(arguments)
    breaks, stale = read_breaks(), 0
    if options.changed:
        stale = report_stale(breaks, ROOT)
        breaks, sentence = choose_changed(breaks, ROOT)
        print(sentence, flush=True)
    elif options.nightly:
        breaks = of_night(breaks, read_last_runs(LAST_RUNS, date.today()), date.today())
    elif options.only:
        wanted = [name.casefold() for name in options.only]
        breaks = [one for one in breaks if any(name in one.rule.casefold() for name in wanted)]
        if not breaks:
            print(f"No rule contains {' or '.join(options.only)}")
            return 2
    if options.list:
        return list_breaks(breaks)
    if options.for_seconds is not None:
        breaks = by_danger(breaks)
    return (try_chosen(breaks, options, started) if breaks else 0) or stale


def report_stale(breaks: Iterable[Break], root: Path) -> int:
    """Print the breaks that do not apply; returns the exit code."""
    problems = [f"{STALE}: {one.rule}\n{'':16}{problem}" for one in breaks if (problem := one.problem(root))]
    print(*problems, sep="\n", end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
