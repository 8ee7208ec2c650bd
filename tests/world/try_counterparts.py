"""Tries agentnb against the real counterparts of ``counterparts.toml``, and writes the table in ``README.md``.

    python tests/world/try_counterparts.py                       those of every day
    python tests/world/try_counterparts.py --nightly             and those whose installation takes long
    python tests/world/try_counterparts.py --only aimock         those of these names, or kinds

Each counterpart is installed by name in an environment of its own below ``.venvs/world``, which stays. Unavailable ones are
skipped, with the reason. The lines of counterparts that are not tried stay as they are.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FOLDER = Path(__file__).parent
sys.path[:0] = [path for path in (str(FOLDER), str(FOLDER.parents[1])) if path not in sys.path]

from counterpart_cases import Case  # noqa: E402  # found beside this file
from environments import Environment, Missing, environment_of  # noqa: E402

README = FOLDER / "README.md"
TABLE = re.compile(r"(?<=<!-- world -->\n).*?(?=<!-- /world -->)", re.DOTALL)
HEAD = "| counterpart | version | tried | cases | failures |\n|---|---|---|---|---|\n"
SHOWN = 300
"""Characters of a problem that are printed."""


class Kind(Protocol):
    """A module that tries counterparts of one kind."""

    TRIED: str
    """Description of the case."""

    def cases(self, row: dict[str, Any], environment: Environment) -> Iterator[Case]:
        """Yield what is tried of a counterpart. Raises `Missing` if it does not start."""


class Tried(NamedTuple):
    """Outcome of a counterpart."""

    name: str
    version: str
    about: str
    cases: list[Case]
    missing: str = ""
    """Why it is not to be had."""

    @property
    def failures(self) -> list[Case]:
        """The cases with a problem."""
        return [case for case in self.cases if case.problem]

    @property
    def line(self) -> str:
        """Its line of the table."""
        counts = f"{len(self.cases)} | {len(self.failures)}" if not self.missing else f"0 | skipped: {self.missing}"
        return f"| {self.name} | {self.version} | {self.about} | {counts} |\n"


def counterparts(only: Iterable[str] = (), *, nightly: bool = False) -> list[dict[str, Any]]:
    """Return the rows that are to be tried: those of these names or kinds, else all, the nightly ones if asked for."""
    tables = tomllib.loads((FOLDER / "counterparts.toml").read_text(encoding="utf-8"))
    rows = [{"kind": kind, **row} for kind, table in tables.items() for row in table]
    wanted = set(only)
    unknown = wanted - {value for row in rows for value in (row["name"], row["kind"])}
    if unknown:
        raise SystemExit(f"No counterpart, and no kind, is called {', '.join(sorted(unknown))}")
    if wanted:
        return [row for row in rows if wanted & {row["name"], row["kind"]}]
    return [row for row in rows if nightly or not row.get("nightly")]


def tried(row: dict[str, Any]) -> Tried:
    """Try a counterpart, printing each failure."""
    kind: Kind = import_module(row["kind"])
    result = Tried(row["name"], "", row.get("tried", kind.TRIED), [])
    try:
        environment = environment_of(row)
        result = result._replace(version=environment.version)
        for case in kind.cases(row, environment):
            result.cases.append(case)
            if case.problem:
                known = row.get("known", {}).get(case.name)
                word, why = ("known to fail", known) if known else ("FAILED", case.problem[:SHOWN])
                print(f"  {word} {row['name']}, {case.name}: {why}", flush=True)
    except Missing as error:
        print(f"  skipped {row['name']}: {error}", flush=True)
        return result._replace(missing=str(error))
    except Exception as error:  # the others are tried nevertheless
        result.cases.append(Case("all of it", f"{type(error).__name__}: {error}"))
        print(f"  FAILED {row['name']}: {result.cases[-1].problem[:SHOWN]}", flush=True)
    print(f"  {row['name']} {result.version}: {len(result.cases)} cases, {len(result.failures)} failures", flush=True)
    return result


def with_table(readme: str, results: Iterable[Tried], names: Iterable[str]) -> str:
    """Return the README with the lines of these results; those of the other ``names`` stay as they were."""
    found = TABLE.search(readme)
    assert found is not None, "the README has no table of counterparts"
    lines = {line.split(" | ")[0].removeprefix("| "): f"{line}\n" for line in found[0].splitlines()[2:]}
    lines |= {result.name: result.line for result in results}
    table = HEAD + "".join(lines[name] for name in names if name in lines)
    return TABLE.sub(lambda _: table, readme)


def main() -> int:
    """Try them, write the table, and return the code to exit with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nightly", action="store_true")
    parser.add_argument("--only", nargs="+", default=())
    given = parser.parse_args()
    rows = counterparts(given.only, nightly=given.nightly)
    results = [tried(row) for row in rows]
    names = [row["name"] for row in counterparts(nightly=True)]
    README.write_text(with_table(README.read_text(encoding="utf-8"), results, names), encoding="utf-8")
    cases = sum(len(one.cases) for one in results)
    failures = sum(len(one.failures) for one in results)
    skipped = sum(bool(one.missing) for one in results)
    known = sum(case.name in row.get("known", {}) for row, one in zip(rows, results, strict=True) for case in one.failures)
    print(f"{cases - failures} passed, {failures} failed, {known} of them as known, {skipped} counterparts skipped")
    return 1 if failures > known or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
