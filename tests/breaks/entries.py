"""The entries of ``rules.toml``: a rule each, and the change that breaks it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

RULES = Path(__file__).with_name("rules.toml")


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


def read_breaks(path: Path = RULES) -> list[Break]:
    """Read the breaks. ValueError for two of the same rule, or one that changes nothing."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["break"]
    breaks = [Break(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]
    rules = [one.rule for one in breaks]
    wrong = [one.rule for one in breaks if rules.count(one.rule) > 1 or one.old == one.new or not one.tests]
    if wrong:
        raise ValueError(f"Listed twice, without tests, or without a change: {'; '.join(wrong)}")
    return breaks
