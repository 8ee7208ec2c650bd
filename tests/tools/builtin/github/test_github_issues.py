"""Issues as text for the model."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from asserted_sentences import Snapshot
from github_server import PULL_REQUEST, TOKEN, issue

from agentnb import settings
from agentnb.tools.builtin.github.api_errors import ToolRefused
from agentnb.tools.builtin.github.github_group import comment_line, issue_lines, issue_text
from agentnb.tools.builtin.github.github_repository import Repository

TIDES = Repository("octo", "tides")


def test_pull_requests_and_missing_issue_fields_are_reported(snapshot: Snapshot) -> None:
    assert issue_text(PULL_REQUEST, TIDES) == snapshot("pull request")
    assert issue_text({"number": 1, "title": "A", "state": "open", "labels": ["old form"]}, TIDES) == snapshot("few fields")


def test_issue_list_is_truncated_at_the_requested_length(snapshot: Snapshot) -> None:
    assert issue_lines([issue(3), issue(2), issue(1)], TIDES, 2).splitlines() == snapshot


def test_issues_of_a_renamed_repository_are_not_listed(snapshot: Snapshot) -> None:
    """GitHub redirects to the new name, and the filters are lost."""
    renamed = issue(1, repository_url="https://api.github.com/repos/octo/waves")
    with pytest.raises(ToolRefused) as caught:
        issue_lines([renamed], TIDES, 10)
    assert caught.value.outcome.error_code == "moved" and caught.value.outcome.text == snapshot
    assert "#1" in issue_lines([issue(1)], Repository("Octo", "TIDES"), 10)


def test_errors_never_repeat_a_key_sent_by_the_server() -> None:
    settings.keep_key("github", TOKEN)
    with pytest.raises(ToolRefused) as caught:
        issue_lines([issue(1, repository_url=f"https://api.github.com/repos/octo/{TOKEN}")], TIDES, 10)
    assert TOKEN not in caught.value.outcome.text and "[key]" in caught.value.outcome.problem


def test_invisible_characters_are_removed_from_issues() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    text = issue_text(issue(1, title=f"A{hidden}", body=f"B{hidden}"), TIDES) + issue_lines(
        [issue(1, title=f"C{hidden}")], TIDES, 1
    )
    assert not any(letter in text for letter in hidden)


def test_malformed_data_is_an_error(subtests: pytest.Subtests) -> None:
    cases: dict[str, Any] = {"moved": {"message": "Moved"}, "none": None, "list": [], "types": {"number": "1", "title": 2}}
    for name, data in cases.items():
        with subtests.test(name):
            for read in (issue_text, partial(comment_line, number=1)):
                with pytest.raises(ToolRefused) as caught:
                    read(data, TIDES)
                assert caught.value.outcome.error_code == "unexpected_answer"
    with pytest.raises(ToolRefused):
        issue_lines({"message": "Moved"}, TIDES, 10)
