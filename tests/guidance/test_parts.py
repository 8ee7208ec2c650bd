"""Parts of a guidance set, read from Markdown."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot

from agentnb.detect.guidance_rules import CELLS
from agentnb.errors import SettingsError
from agentnb.guidance.parts import PARTS, part_name, read_parts


@pytest.mark.req("R0.14")
def test_there_are_four_guidance_cells() -> None:
    assert CELLS == ("todos_tools", "todos_text", "tools", "text")
    assert PARTS[:4] == CELLS


@pytest.mark.req("R0.75")
def test_failure_parts_may_be_headings() -> None:
    body = "# Tool failed\nA.\n# tool failed again\nB.\n# Failure loop\nC."
    assert read_parts(body) == {"tool_failed": "A.", "tool_failed_again": "B.", "failure_loop": "C."}


def test_heading_matches_a_part_in_any_spelling(subtests: pytest.Subtests) -> None:
    for part in PARTS:
        with subtests.test(part=part):
            words = part.replace("_", " ")
            assert {
                part_name(one) for one in (part, f" {words.title()} ", words.upper(), f"`{part}`", part.replace("_", "-"))
            } == {part}


@pytest.mark.req("R0.47")
@pytest.mark.parametrize(("number", "part"), [(1, "reminder"), (2, "warning"), (3, "final_warning")])
def test_levels_can_be_named_by_number(number: int, part: str) -> None:
    assert part_name(f"Level {number}") == part_name(f"intervention {number}") == part


def test_each_heading_starts_a_part() -> None:
    body = "# Todos tools\n\nFirst.\n\nSecond.\n\n# Level 2\nThird.\n# text\n"
    assert read_parts(body) == {"todos_tools": "First.\n\nSecond.", "warning": "Third.", "text": ""}


def test_part_headings_share_any_level_and_deeper_ones_are_text() -> None:
    body = "## tools\n\n### How\n\nLook.\n\n## text\n\nTalk."
    assert read_parts(body) == {"tools": "### How\n\nLook.", "text": "Talk."}


def test_hash_sign_in_code_is_not_a_heading() -> None:
    body = "# tools\n\n```\n# text\n```\n"
    assert read_parts(body) == {"tools": "```\n# text\n```"}


def test_underlined_headings_and_crlf_line_endings_are_accepted() -> None:
    assert read_parts("tools\r\n=====\r\n\r\nLook.\r\nAgain.\r\n") == {"tools": "Look.\nAgain."}


def test_body_without_headings_applies_to_the_cells() -> None:
    assert read_parts(" Call a tool. ") == dict.fromkeys(CELLS, "Call a tool.")


@pytest.mark.parametrize("body", ["", " \n\t\n"])
def test_blank_body_is_refused(body: str) -> None:
    with pytest.raises(SettingsError, match="empty"):
        read_parts(body)


def test_unknown_heading_is_refused_with_similar_ones(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        read_parts("# Final warnin\n\nWords.")
    with pytest.raises(SettingsError, match="Available: todos_tools, todos_text"):
        read_parts("# Zzz\n\nWords.")


def test_duplicate_part_is_refused_under_either_name() -> None:
    with pytest.raises(SettingsError, match="warning appears twice"):
        read_parts("# warning\n\nA.\n\n# Level 2\n\nB.")


def test_text_above_the_first_heading_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"'Some words\.'"):
        read_parts("Some words.\n\n# text\n\nWords.")


def test_heading_without_its_space_is_refused() -> None:
    with pytest.raises(SettingsError, match="Add a space: # warning"):
        read_parts("# todos_text\nAct.\n#warning\nNow.")
    assert read_parts("# text\nUse #hashtags freely.\n#tag")["text"] == "Use #hashtags freely.\n#tag"
