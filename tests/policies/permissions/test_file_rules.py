"""Rules about files, for changes that no tool call makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb.policies.permissions.file_rules import denied_write
from agentnb.policies.permissions.permission_rules import RuleList

CASES: dict[str, tuple[list[Any], str]] = {
    "no rules": ([], ""),
    "allowed": ([{"write_file": "allow"}], ""),
    "asked about": ([{"write_file": "ask"}], ""),
    "denied": ([{"write_file": "deny"}], "write_file"),
    "denied by a pattern of names": ([{"write_*": "deny"}], "write_*"),
    "denied by its flag": ([{"file_write": "deny"}], "file_write"),
    "its flag is not permitted": ([["file_read"]], "file_write"),
    "its flag is permitted": ([["file_write"]], ""),
    "denied there": ([{"write_file(data/**)": "deny"}], "write_file(data/**)"),
    "denied elsewhere": ([{"write_file(other/**)": "deny"}], ""),
    "allowed first": ([{"write_file(data/a.txt)": "allow", "write_file(data/**)": "deny"}], "write_file(data/**)"),
    "denied by an inner run": ([{"write_file": "allow"}, {"write_file(data/*)": "deny"}], "write_file(data/*)"),
    "another tool is denied": ([{"edit_file": "deny", "bash": "deny"}], ""),
}


@pytest.mark.req("R2.5")
def test_rules_that_deny_a_write_are_found(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, (layers, expected) in CASES.items():
        with subtests.test(name):
            rules = [RuleList.of(layer) for layer in layers]
            assert denied_write(rules, tmp_path / "data" / "a.txt", tmp_path) == expected


def test_rule_is_about_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    rules = [RuleList.of({"write_file(secret/**)": "deny"})]
    assert denied_write(rules, tmp_path / "link" / "a.txt", tmp_path) == "write_file(secret/**)"
