"""Candidates: guidance sets derived from one another by proposals that each change one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec

from agentnb.errors import SettingsError
from agentnb.guidance.parts import part_name
from agentnb.guidance.sets import GuidanceSet

MAX_LINE = 400
"""Maximum characters of a proposed line."""


class Proposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change to one line of a guidance set."""

    part: Annotated[str, msgspec.Meta(description="the part of the guidance set to change")]
    line: Annotated[str, msgspec.Meta(description="the new line; empty to take the line of `replaces` out")]
    replaces: Annotated[str, msgspec.Meta(description="the line to replace, exactly as written; empty to add a line")] = ""


class Line(NamedTuple):
    """A line of a guidance set."""

    part: str
    text: str


def candidate_of(parts: Mapping[str, str]) -> GuidanceSet:
    """Return a set with these parts, named after its content so that equal candidates share their cells."""
    return GuidanceSet(f"candidate-{GuidanceSet('candidate', parts).version}", parts)


def apply_proposal(guidance: GuidanceSet, proposal: Proposal) -> GuidanceSet:
    """Apply a proposal to a set, and return the candidate. Raises `SettingsError` if it cannot be applied."""
    part, line, old = part_name(proposal.part), proposal.line.strip(), proposal.replaces.strip()
    if not line and not old:
        raise SettingsError("The proposal is empty", "Give a line")
    if len(line) > MAX_LINE or len(line.splitlines()) > 1:
        raise SettingsError(f"The proposal is not one line of at most {MAX_LINE} characters", "Shorten it")
    lines = guidance.parts[part].split("\n")
    if not old:
        return candidate_of({**guidance.parts, part: "\n".join([*lines, line])})
    index = next((index for index, text in enumerate(lines) if text.strip() == old), None)
    if index is None:
        raise SettingsError(f"The part {part} has no line {old!r}", "Copy the line exactly")
    return candidate_of({**guidance.parts, part: "\n".join([*lines[:index], *([line] if line else []), *lines[index + 1 :]])})


def added_lines(start: GuidanceSet, best: GuidanceSet) -> list[Line]:
    """Return the lines in the best set that the initial set lacks."""
    added: list[Line] = []
    for part, text in best.parts.items():
        remaining = Counter(start.parts[part].split("\n"))
        for line in text.split("\n"):
            if remaining[line]:
                remaining[line] -= 1
            elif line.strip():
                added.append(Line(part, line))
    return added


def without_line(guidance: GuidanceSet, line: Line) -> GuidanceSet:
    """Return the candidate without a line. If several lines are equal, the last one is removed."""
    lines = guidance.parts[line.part].split("\n")
    index = len(lines) - 1 - lines[::-1].index(line.text)
    return candidate_of({**guidance.parts, line.part: "\n".join([*lines[:index], *lines[index + 1 :]])})
