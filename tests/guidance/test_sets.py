"""Guidance sets: texts by part, a version by content, and names that are refused when they name nothing."""

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


def test_equal_texts_have_equal_versions_whatever_the_name() -> None:
    brief, other = own_set(text="Call a tool."), GuidanceSet("other", {"text": "Call a tool."})
    assert brief.version == other.version
    assert GuidanceSet("copy", {}).version == MATRIX.version
    assert GuidanceSet("spelled_out", dict(MATRIX.parts)).version == MATRIX.version


def test_every_part_counts_for_the_version(subtests: pytest.Subtests) -> None:
    for part in PARTS:
        with subtests.test(part=part):
            assert own_set(**{part: "Something else."}).version != MATRIX.version
            assert own_set(**{part: "Something else."}).version != own_set(**{part: "Something other."}).version


def test_texts_that_change_places_make_another_version() -> None:
    assert own_set(text="A.", tools="B.").version != own_set(text="B.", tools="A.").version


@pytest.mark.req("R0.14")
def test_a_part_that_is_missing_is_the_built_in_one() -> None:
    mine = own_set(tools="Look again.")
    assert mine.parts["tools"] == "Look again."
    assert {name: text for name, text in mine.parts.items() if name != "tools"} == {
        name: text for name, text in MATRIX.parts.items() if name != "tools"
    }
    assert mine.own_parts() == ["tools"]


def test_an_empty_part_is_not_the_built_in_one() -> None:
    assert own_set(tools="").parts["tools"] == ""
    assert GuidanceSet.from_markdown("own", "# tools\n\n# text\n\nWords.").parts["tools"] == ""


def test_a_text_without_headings_stands_for_all_four_cells() -> None:
    mine = GuidanceSet.from_markdown("own", "Call a tool.\n")
    assert [mine.parts[cell] for cell in CELLS] == ["Call a tool."] * 4
    assert mine.own_parts() == list(CELLS)


def test_space_around_a_text_is_no_difference() -> None:
    assert own_set(text="\n Words.  \n").version == own_set(text="Words.").version


def test_off_says_nothing_and_the_matrix_says_something_in_every_part() -> None:
    assert not any(OFF.parts.values())
    assert all(MATRIX.parts.values())
    assert list(MATRIX.parts) == list(OFF.parts) == list(PARTS)


@pytest.mark.parametrize("words", [MATRIX, own_set(text="Words.", tools=""), own_set(warning="## Now\n\n- this\n- that")])
def test_a_set_survives_as_markdown(words: GuidanceSet) -> None:
    again = GuidanceSet.from_markdown("again", words.markdown())
    assert (again.parts, again.version) == (words.parts, words.version)


def test_what_off_says_survives_as_markdown_under_another_name() -> None:
    assert GuidanceSet.from_markdown("silent", OFF.markdown()).version == OFF.version


def test_a_name_is_one_word(subtests: pytest.Subtests) -> None:
    for name in ["", "  ", "two words", None, 3]:
        with subtests.test(name=name):
            with pytest.raises(SettingsError, match="name of a guidance set"):
                GuidanceSet(name, {})


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_built_in_names_are_taken(name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is a built-in guidance set"):
        GuidanceSet(name, {"text": "Mine."})
    assert GuidanceSet(name, {}) == built_in(name)


def test_a_part_that_there_is_not_is_refused_with_those_most_like_it(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        GuidanceSet("own", {"todo_text": "Words."})
    with pytest.raises(SettingsError, check=snapshot.worded):
        GuidanceSet.from_markdown("own", "# Warnings\n\nWords.")


def test_a_variable_that_there_is_not_is_refused_with_those_most_like_it(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        own_set(text="Do {{ next_tood }}.")


def test_a_text_is_a_text(subtests: pytest.Subtests) -> None:
    for text in [None, 3, ["Words."], b"Words."]:
        with subtests.test(text=text):
            with pytest.raises(SettingsError, match="The part text must be a text"):
                own_set(text=text)


@pytest.mark.parametrize("parts", [None, "Words.", [("text", "Words.")]])
def test_parts_are_a_dict(parts: Any) -> None:
    with pytest.raises(SettingsError, match="is not a dict"):
        GuidanceSet("own", parts)


def test_a_set_is_found_by_its_name_and_handed_back_as_it_is() -> None:
    mine = own_set(text="Words.")
    assert find_set("matrix") is MATRIX
    assert find_set("off") is OFF
    assert find_set(mine) is mine
    assert find_set("own", {"own": mine}) is mine


def test_a_name_that_there_is_not_is_refused_with_those_most_like_it_and_how_to_write_one() -> None:
    with pytest.raises(SettingsError, match=r"'matrx'.*Did you mean matrix\?.*GuidanceSet\.from_markdown"):
        find_set("matrx")
    with pytest.raises(SettingsError, match="Did you mean brief"):
        find_set("breif", {"brief": GuidanceSet("brief", {})})
    with pytest.raises(SettingsError, match="is not a guidance set"):
        find_set(3)  # type: ignore[arg-type]


def test_equal_sets_are_equal_and_can_be_keys() -> None:
    assert own_set(text="A.") == own_set(text="A.") != own_set(text="B.")
    assert len({own_set(text="A."), own_set(text="A."), own_set(text="B.")}) == 2


def test_the_run_and_each_piece_of_guidance_name_the_set_and_its_version() -> None:
    mine = own_set(tools="Look again.")
    run, _ = scripted("[CONTINUE]", "Done.", guidance=mine)
    assert run.settings["guidance"] == {"set": "own", "version": mine.version}
    said = [one for a_round in run.rounds for one in a_round.guidance]
    assert said
    assert {(one.set, one.version) for one in said} == {("own", mine.version)}


def test_a_part_that_is_given_under_two_names_is_refused() -> None:
    with pytest.raises(SettingsError, match="The part warning appears twice"):
        GuidanceSet("own", {"warning": "A", "level_2": "B"})


def test_the_name_of_a_part_is_a_text() -> None:
    with pytest.raises(SettingsError, match="1 is not the name of a part"):
        GuidanceSet("own", {1: "A"})  # type: ignore[dict-item]


def test_line_ends_do_not_make_another_version() -> None:
    assert GuidanceSet("own", {"text": "a\r\nb"}).version == GuidanceSet("own", {"text": "a\nb"}).version


def test_nobody_can_change_the_built_in_set_for_all() -> None:
    with pytest.raises(TypeError):
        built_in("matrix").parts["text"] = "x"  # type: ignore[index]


@pytest.mark.parametrize("one", [built_in("matrix"), built_in("off"), GuidanceSet("own", {"text": "Speak."})])
def test_a_set_survives_copying_and_pickling(one: GuidanceSet) -> None:
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert (other, other.version, hash(other)) == (one, one.version, hash(one))
