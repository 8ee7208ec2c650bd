"""Writes into the README of the tests what each part costs: ``python tests/costs.py RESULTS.xml``.

Usage, on a machine with nothing else to do:
    .venv/bin/pytest --browser -n 3 --dist loadfile --no-loadscope-reorder --junitxml=RESULTS.xml
    .venv/bin/python tests/costs.py RESULTS.xml
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

README = Path(__file__).with_name("README.md")
TABLE = re.compile(r"(?<=<!-- costs -->\n).*?(?=<!-- /costs -->)", re.DOTALL)


def part_of(classname: str) -> str:
    """The folder of a test, as ``tests/agent``; of one directly in ``tests``, that."""
    folder, name, *_ = [*classname.split("."), ""]
    return folder if folder == "notebooks" or name.startswith("test_") else f"{folder}/{name}"


def table(results: Path) -> str:
    """One line for each part: how many tests and seconds, and its slowest file."""
    parts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case in ElementTree.parse(results).iter("testcase"):
        name = case.get("classname") or ""
        parts[part_of(name)][name].append(float(case.get("time") or 0))
    seconds = {part: sum(map(sum, files.values())) for part, files in parts.items()}
    lines = ["| part | tests | seconds | its slowest file |", "|---|---|---|---|"]
    for part in sorted(parts, key=lambda one: -seconds[one]):
        slowest = max(parts[part], key=lambda name: sum(parts[part][name]))
        tests, took = sum(map(len, parts[part].values())), sum(parts[part][slowest])
        lines.append(
            f"| `{part}` | {tests} | {seconds[part]:.0f} | `{slowest.removesuffix('.ipynb').split('.')[-1]}`, {took:.0f} |"
        )
    lines.append(
        f"| all | {sum(len(times) for files in parts.values() for times in files.values())} | {sum(seconds.values()):.0f} | |"
    )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    written = table(Path(sys.argv[1]))
    README.write_text(TABLE.sub(lambda _: written, README.read_text(encoding="utf-8")), encoding="utf-8")
    print(written)
