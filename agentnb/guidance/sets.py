"""Guidance sets: named collections of texts that people write, vary and compare."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from agentnb.advice import WriteGuidance
from agentnb.core.guidance import GuidanceTexts
from agentnb.core.messages import encodable
from agentnb.errors import SettingsError, suggest_names
from agentnb.guidance.parts import PARTS, part_name, read_parts
from agentnb.guidance.prompts import prompt
from agentnb.guidance.template import check_variables

MATRIX = "matrix"
OFF = "off"
BUILT_IN = (MATRIX, OFF)
"""Names of the built-in sets."""


@dataclass(frozen=True, slots=True)
class GuidanceSet:
    """A named set of guidance texts, one per part: the four cells, three levels of intervention, and the other parts.

    ``parts``: the texts by name; a missing part is taken from the built-in set; an empty part sends nothing. ``version`` is a
    hash of the complete content: equal texts have equal versions, whatever the name. Raises `SettingsError` for an unknown part
    or variable.

    GuidanceSet("brief", {"todos_text": "Do {{ next_todo }} now: call a tool."})
    """

    name: str
    parts: Mapping[str, str]
    version: str = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or len(self.name.split()) != 1 or not self.name.isprintable():
            raise SettingsError(f"{self.name!r} is not a valid name for a guidance set", "Use a single word")
        if not isinstance(self.parts, Mapping):
            raise SettingsError(f"parts={self.parts!r} is not a dict", f'Write {{"{PARTS[0]}": "..."}}')
        if self.parts and self.name in BUILT_IN:
            raise SettingsError(f"{self.name} is a built-in guidance set", "Choose another name for yours")
        own: dict[str, str] = {}
        for name, text in self.parts.items():
            if part_name(name) in own:
                raise SettingsError(f"The part {part_name(name)} appears twice", "Keep one of them")
            own[part_name(name)] = _check_text(name, text)
        parts = dict.fromkeys(PARTS, "") if self.name == OFF else {**_matrix_parts(), **own}
        self._set_parts(parts)

    def _set_parts(self, parts: Mapping[str, str]) -> None:
        content = json.dumps([parts[name] for name in PARTS])
        object.__setattr__(self, "parts", MappingProxyType({name: parts[name] for name in PARTS}))
        object.__setattr__(self, "version", hashlib.sha256(content.encode()).hexdigest()[:10])

    @classmethod
    def from_markdown(cls, name: str, body: str) -> GuidanceSet:
        """Parse a set from Markdown: one heading per part; without headings, the text applies to all four cells."""
        return cls(name, read_parts(body))

    @classmethod
    def as_logged(cls, name: str, texts: Mapping[str, str]) -> GuidanceSet:
        """Recreate the set of a run from the texts in its log; missing parts are empty.

        The name may be that of a built-in set, since another version of agentnb may have had other texts for it.
        """
        parts = {part: _check_text(part, texts[part]) if part in texts else "" for part in PARTS}
        if name not in BUILT_IN:
            return cls(name, parts)
        usual = built_in(name)
        if dict(usual.parts) == parts:
            return usual
        copy = object.__new__(cls)  # the constructor rejects texts for this name
        object.__setattr__(copy, "name", name)
        copy._set_parts(parts)
        return copy

    def markdown(self) -> str:
        """Return the complete set as Markdown, one heading per part.

        `from_markdown` parses it back, unless a part contains a heading of the highest level, or an unterminated
        fence.
        """
        return "\n\n".join(f"# {name}\n\n{text}".rstrip() for name, text in self.parts.items())

    @property
    def as_texts(self) -> GuidanceTexts:
        """The set in the form used in logs."""
        return GuidanceTexts(self.name, self.version, {name: text for name, text in self.parts.items() if text})

    def own_parts(self) -> list[str]:
        """Return the names of the parts that differ from the built-in set."""
        return [name for name, text in self.parts.items() if text != _matrix_parts()[name]]

    def __reduce__(self) -> tuple[Any, ...]:
        return GuidanceSet.as_logged, (self.name, dict(self.parts))

    def __hash__(self) -> int:
        return hash((self.name, self.version))

    def __repr__(self) -> str:
        return f"<GuidanceSet {self.name}, version {self.version}>"


def _check_text(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise SettingsError(f"The part {name} must be a string, got {text!r}")
    check_variables(text)
    return encodable(text.replace("\r\n", "\n").replace("\r", "\n")).strip()


@cache
def _matrix_parts() -> dict[str, str]:
    return {name: prompt(f"{MATRIX}/{name}") for name in PARTS}


@cache
def built_in(name: str) -> GuidanceSet:
    """Return the built-in set with this name."""
    return GuidanceSet(name, {})


def find_set(guidance: str | GuidanceSet, known: Mapping[str, GuidanceSet] | None = None) -> GuidanceSet:
    """Return the set with this name, from ``known`` or built-in; a `GuidanceSet` is returned unchanged. Raises `SettingsError`,
    suggesting similar names.
    """
    if isinstance(guidance, GuidanceSet):
        return guidance
    if not isinstance(guidance, str):
        raise SettingsError(f"guidance={guidance!r} is not a guidance set", f'Use a name such as "{MATRIX}", or a GuidanceSet')
    known_set = (known or {}).get(guidance)
    if known_set is not None:
        return known_set
    if guidance in BUILT_IN:
        return built_in(guidance)
    raise SettingsError(
        f"There is no guidance set {guidance!r}",
        (*suggest_names(guidance, [*BUILT_IN, *(known or {})]), WriteGuidance(guidance, lead="Write one")),
    )
