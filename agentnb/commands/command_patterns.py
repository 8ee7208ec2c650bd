"""Patterns of commands in rules: what they allow, what they forbid, and which pattern is offered in a question."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from agentnb.commands.globs import star_glob
from agentnb.commands.program_call import (
    ASSIGNMENT,
    Feature,
    Invocation,
    Option,
    StartedCommand,
    features_of,
    find_started,
    invocation_of,
)
from agentnb.commands.programs import names_of_forms
from agentnb.commands.shell_command import PLAIN, Part, ShellCommand, key_files_in
from agentnb.commands.shell_script import Word, as_written

EVERYTHING = "*"
_HERE_DOCUMENTS = ("<<", "<<-", "<<<")
_PLAIN_WORD = re.compile(r"[\w./:@%+,=-]+")


def command_glob(pattern: str) -> str:
    """Return the regular expression for a pattern in which ``*`` matches any text; `` *`` at its end may also match nothing."""
    beginning, star = (pattern[:-2], r"(?:\ .*)?") if pattern.endswith(" *") else (pattern, "")
    return star_glob(beginning) + star


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A parsed pattern of commands."""

    words: tuple[Word, ...]
    assignments: tuple[str, ...]
    invocation: Invocation
    regex: re.Pattern[str]

    @property
    def names_program(self) -> bool:
        """True if the first word of the pattern is a program."""
        return bool(self.words) and "*" not in self.words[0].raw

    @property
    def program(self) -> str:
        """Name of the pattern's program in the table; empty if the pattern names no program."""
        return self.invocation.program if self.names_program else ""


@lru_cache(maxsize=4096)
def command_pattern(text: str) -> CommandPattern:
    """Parse a text as a pattern."""
    try:
        texts = shlex.split(text)
    except ValueError:  # an unterminated quotation
        texts = text.split()
    count = next((index for index, word in enumerate(texts) if not ASSIGNMENT.match(word)), len(texts))
    return _pattern(tuple(Word(word, word, word) for word in texts[count:]), tuple(texts[:count]), text)


def _pattern(words: tuple[Word, ...], assignments: tuple[str, ...] = (), text: str | None = None) -> CommandPattern:
    text = as_written(words) if text is None else text
    return CommandPattern(words, assignments, invocation_of(words), re.compile(command_glob(text), re.DOTALL))


def covers(pattern: str, part: Part) -> bool:
    """True if an allowing pattern applies to a part of a command. The part's program must be used in the form that the pattern
    shows.
    """
    if (
        not all(_opens_nothing(operator, target) for operator, target in part.redirections)
        or not part.words
        or part.is_elsewhere
    ):
        return False
    if pattern == EVERYTHING:
        return True
    shown = command_pattern(pattern)
    assigned = tuple(f"{name}={value.value}" for name, value in part.assignments)
    return assigned == shown.assignments and _covers(shown, part.invocation, part.text)


def _covers(pattern: CommandPattern, call: Invocation, text: str) -> bool:
    if not pattern.regex.fullmatch(text):
        return False
    features = features_of(call)
    shown = features_of(pattern.invocation) if features else []
    if not all(any(_is_shown(feature, shown_feature) for shown_feature in shown) for feature in features):
        return False
    started, is_all = find_started(call)
    if not started:
        return is_all or text == as_written(pattern.words)
    of_pattern, _ = find_started(pattern.invocation)
    if not is_all or len(of_pattern) != len(started):
        return False
    return all(
        _covers_started(_words_of(shown_command), _words_of(command))
        for shown_command, command in zip(of_pattern, started, strict=True)
    )


def _covers_started(shown: tuple[Word, ...], words: tuple[Word, ...]) -> bool:
    pattern = _pattern(shown)
    return bool(words) and pattern.names_program and _covers(pattern, invocation_of(words), as_written(words))


def _words_of(command: StartedCommand) -> tuple[Word, ...]:
    """Return the words of a started command; text that is not a plain command counts as a single word."""
    text = command.text
    if not text:
        return command.words
    return tuple(Word(word, word, word) for word in (text.split() if PLAIN.fullmatch(text.replace("*", "")) else [text]))


def _is_shown(feature: Feature, shown: Feature) -> bool:
    """True if a pattern shows a feature: an option with its value, which may contain stars, or an exact text."""
    if (feature.form, feature.name) != (shown.form, shown.name) or feature.name == "uncertain":
        return False
    is_option = feature.name.startswith("-")
    return fnmatchcase(feature.value, _escape(shown.value)) if is_option else feature.value == shown.value


def _escape(value: str) -> str:
    """Escape a pattern for `fnmatch`, except for ``*``."""
    return re.sub(r"[\[?]", lambda match: f"[{match[0]}]", value)


def _opens_nothing(operator: str, target: Word | None) -> bool:
    return operator not in _HERE_DOCUMENTS if target is None else target.value == "/dev/null"


def forbids(pattern: str, part: Part) -> bool | None:
    """True if an asking or denying pattern applies to a part of a command, or None if undecidable.

    Options match in any order and spelling, and alongside others.
    """
    shown, call = command_pattern(pattern), part.invocation
    if any(shown.regex.fullmatch(text) for text in part.texts):
        return True
    is_known = all(word.value is not None for word in part.words)
    if not shown.names_program:
        return False if is_known else None
    if shown.program != call.program:
        return False
    if shown.invocation.form is None:
        return False if is_known or _excludes(shown.invocation.operands, call.operands) else None
    is_form = _is_form(shown.invocation, call)
    return _limits(shown.invocation, call) if is_form else is_form


def _is_form(shown: Invocation, call: Invocation) -> bool | None:
    """True if a command has the form of a pattern, None if undecidable."""
    if shown.form is call.form or shown.form is None or call.form is None:
        return True
    if call.form.name.startswith(shown.form.name):
        return bool(shown.operands) and "*" in shown.operands[0].raw
    return None if call.is_uncertain and call.form.name in names_of_forms() else False


def _limits(shown: Invocation, call: Invocation) -> bool | None:
    """True if the options and operands of a command include those of a pattern, None if undecidable."""
    has_all = all(any(_is_option(option, call_option) for call_option in call.options) for option in shown.options)
    matches = _operands_match(shown.operands, call.operands)
    if matches is False or not (has_all or call.is_uncertain):
        return False
    return True if has_all and matches else None


def _excludes(shown: Sequence[Word], operands: Sequence[Word]) -> bool:
    """True if the first operand is known and differs from the pattern's."""
    if not shown or not operands or "*" in shown[0].raw or operands[0].value is None:
        return False
    return shown[0].value != operands[0].value


def _is_option(shown: Option, option: Option) -> bool:
    """True if an option of a command matches an option of a pattern, even if abbreviated or with a star."""
    if shown.form is not option.form:
        return False
    if "*" in shown.spelled:
        spelled = {
            option.spelled,
            *option.names,
            *(name for name, spec in option.form.options.items() if spec.name in option.names),
        }
        return any(fnmatchcase(name, _escape(shown.spelled)) for name in spelled)
    is_same = bool(set(shown.names) & set(option.names)) or (
        option.spelled.startswith("--") and any(name.startswith(option.spelled) for name in shown.names)
    )
    return is_same and (not shown.values or fnmatchcase(option.value, _escape(shown.value)) or "\0" in option.value)


def _operands_match(shown: Sequence[Word], operands: Sequence[Word]) -> bool | None:
    """True if operands match those of a pattern, None if bash computes some of them."""
    text = as_written(shown)
    if text in ("", EVERYTHING) and (text or not operands):
        return True
    regex = re.compile(command_glob(f" {text}") if text != EVERYTHING else ".*", re.DOTALL)
    if any(word.value is None for word in operands):
        return None
    return regex.fullmatch("".join(f" {word.value}" for word in operands)) is not None


def why_refused(pattern: str) -> str:
    """Return the pattern to suggest in place of one whose options mean nothing because its program is not in the table."""
    shown = command_pattern(pattern)
    if not any(re.match(r"-[^\s]", word.raw) for word in shown.words):
        return ""
    if not shown.names_program or shown.words[0].raw.startswith("-"):
        return "git push --force *"
    return f"{shown.words[0].raw} *" if shown.invocation.form is None else ""


def offer_pattern(command: ShellCommand, parts: Iterable[Part]) -> str:
    """Return the narrow pattern that allows all of these parts of a command, or an empty string."""
    asked = list(parts)
    offered = {_offer(part) for part in asked if part.starter not in asked}
    return offered.pop() if len(offered) == 1 and not command.problem else ""


def _offer(part: Part) -> str:
    """Return the pattern for a part: its form, or the complete part if it runs code or its form is not in the table."""
    pattern = _shown_form(part.words) if part.words else ""
    return pattern if pattern and covers(pattern, part) else ""


EXACT = ("text", "written", "last", "output")
"""Kinds of operands that are offered exactly, since the program runs or writes what they name."""


def _shown_form(words: Sequence[Word]) -> str:
    call = invocation_of(words)
    form = call.form
    started, _ = find_started(call)
    if started and form and form.is_offered and started[0].words:
        inner = _shown_form(started[0].words)
        return " ".join([*(word.raw for word in words[: -len(started[0].words)]), inner]) if inner else ""
    if started or any(feature.name != "operand" for feature in features_of(call)):
        return ""
    is_group = form is not None and form.name in names_of_forms()
    if form is None or form.stops or form.operands in EXACT or (is_group and not call.operands) or key_files_in(words):
        shown, star = [word.raw for word in words], ""
    else:  # a form outside the table, such as ``git stash pop``, is named by its first operand
        named = [call.operands[0].raw] if is_group else []
        shown, star = [words[0].raw, *form.name.split()[1:], *named], " *"
    return f"{' '.join(shown)}{star}" if all(map(_PLAIN_WORD.fullmatch, shown)) else ""
