"""Guidance sets: texts by part, versions by content, and refused names."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from asserted_sentences import Snapshot
from ephemeral_text import MATRIX, OFF, own_set
from scripted_runs import scripted

from agentnb.detect.guidance_rules import CELLS
from agentnb.errors import SettingsError
from agentnb.guidance import BUILT_IN, GuidanceSet, built_in, find_set
from agentnb.guidance.parts import PARTS


def test_equal_texts_have_equal_versions_under_any_name() -> None:
    brief, other = own_set(text="Call a tool."), GuidanceSet("other", {"text": "Call a tool."})
    assert brief.version == other.version
    assert GuidanceSet("copy", {}).version == MATRIX.version
    assert GuidanceSet("spelled_out", dict(MATRIX.parts)).version == MATRIX.version


def test_every_part_affects_the_version(subtests: pytest.Subtests) -> None:
    for part in PARTS:
        with subtests.test(part=part):
            assert own_set(**{part: "Something else."}).version != MATRIX.version
            assert own_set(**{part: "Something else."}).version != own_set(**{part: "Something other."}).version


def test_swapped_texts_change_the_version() -> None:
    assert own_set(text="A.", tools="B.").version != own_set(text="B.", tools="A.").version


@pytest.mark.req("R0.14")
def test_missing_part_defaults_to_the_built_in_one() -> None:
    mine = own_set(tools="Look again.")
    assert mine.parts["tools"] == "Look again."
    assert {name: text for name, text in mine.parts.items() if name != "tools"} == {
        name: text for name, text in MATRIX.parts.items() if name != "tools"
    }
    assert mine.own_parts() == ["tools"]


def test_empty_part_does_not_default_to_the_built_in_one() -> None:
    assert own_set(tools="").parts["tools"] == ""
    assert GuidanceSet.from_markdown("own", "# tools\n\n# text\n\nWords.").parts["tools"] == ""


def test_text_without_headings_applies_to_all_four_cells() -> None:
    mine = GuidanceSet.from_markdown("own", "Call a tool.\n")
    assert [mine.parts[cell] for cell in CELLS] == ["Call a tool."] * 4
    assert mine.own_parts() == list(CELLS)


def test_surrounding_space_makes_no_difference() -> None:
    assert own_set(text="\n Words.  \n").version == own_set(text="Words.").version


def test_set_off_is_empty_and_matrix_is_complete() -> None:
    assert not any(OFF.parts.values())
    assert all(MATRIX.parts.values())
    assert list(MATRIX.parts) == list(OFF.parts) == list(PARTS)


@pytest.mark.parametrize("words", [MATRIX, own_set(text="Words.", tools=""), own_set(warning="## Now\n\n- this\n- that")])
def test_set_survives_a_markdown_round_trip(words: GuidanceSet) -> None:
    again = GuidanceSet.from_markdown("again", words.markdown())
    assert (again.parts, again.version) == (words.parts, words.version)


def test_set_off_survives_markdown_under_another_name() -> None:
    assert GuidanceSet.from_markdown("silent", OFF.markdown()).version == OFF.version


def test_set_name_must_be_one_word(subtests: pytest.Subtests) -> None:
    for name in ["", "  ", "two words", None, 3]:
        with subtests.test(name=name):
            with pytest.raises(SettingsError, match="name for a guidance set"):
                GuidanceSet(name, {})


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_set_names_are_reserved(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is a built-in guidance set"):
        GuidanceSet(name, {"text": "Mine."})
    assert GuidanceSet(name, {}) == built_in(name)


def test_unknown_part_is_refused_with_similar_names(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        GuidanceSet("own", {"todo_text": "Words."})
    with pytest.raises(SettingsError, check=snapshot.worded):
        GuidanceSet.from_markdown("own", "# Warnings\n\nWords.")


def test_unknown_variable_is_refused_with_similar_names(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        own_set(text="Do {{ next_tood }}.")


def test_part_text_must_be_a_string(subtests: pytest.Subtests) -> None:
    for text in [None, 3, ["Words."], b"Words."]:
        with subtests.test(text=text):
            with pytest.raises(SettingsError, match="The part text must be a string"):
                own_set(text=text)


@pytest.mark.parametrize("parts", [None, "Words.", [("text", "Words.")]])
def test_parts_must_be_a_dict(parts: Any) -> None:
    with pytest.raises(SettingsError, match="is not a dict"):
        GuidanceSet("own", parts)


def test_set_is_found_by_name_and_returned_unchanged() -> None:
    mine = own_set(text="Words.")
    assert find_set("matrix") is MATRIX
    assert find_set("off") is OFF
    assert find_set(mine) is mine
    assert find_set("own", {"own": mine}) is mine


def test_unknown_set_is_refused_with_similar_names() -> None:
    with pytest.raises(SettingsError, match=r"'matrx'.*Did you mean matrix\?.*GuidanceSet\.from_markdown"):
        find_set("matrx")
    with pytest.raises(SettingsError, match="Did you mean brief"):
        find_set("breif", {"brief": GuidanceSet("brief", {})})
    with pytest.raises(SettingsError, match="is not a guidance set"):
        find_set(3)  # type: ignore[arg-type]


def test_equal_sets_are_equal_and_hashable() -> None:
    assert own_set(text="A.") == own_set(text="A.") != own_set(text="B.")
    assert len({own_set(text="A."), own_set(text="A."), own_set(text="B.")}) == 2


def test_run_and_guidance_record_the_set_and_version() -> None:
    mine = own_set(tools="Look again.")
    run, _ = scripted("[CONTINUE]", "Done.", guidance=mine)
    assert run.settings["guidance"] == {"set": "own", "version": mine.version}
    said = [guidance for a_round in run.rounds for guidance in a_round.guidance]
    assert said
    assert {(one.set, one.version) for one in said} == {("own", mine.version)}


def test_part_given_under_both_its_names_is_refused() -> None:
    with pytest.raises(SettingsError, match="The part warning appears twice"):
        GuidanceSet("own", {"warning": "A", "level_2": "B"})


def test_part_name_must_be_a_string() -> None:
    with pytest.raises(SettingsError, match="1 is not the name of a part"):
        GuidanceSet("own", {1: "A"})  # type: ignore[dict-item]


def test_line_endings_do_not_change_the_version() -> None:
    assert GuidanceSet("own", {"text": "a\r\nb"}).version == GuidanceSet("own", {"text": "a\nb"}).version


def test_built_in_set_is_immutable() -> None:
    with pytest.raises(TypeError):
        built_in("matrix").parts["text"] = "x"  # type: ignore[index]


@pytest.mark.parametrize("one", [built_in("matrix"), built_in("off"), GuidanceSet("own", {"text": "Speak."})])
def test_set_survives_copying_and_pickling(one: GuidanceSet) -> None:
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert (other, other.version, hash(other)) == (one, one.version, hash(one))
