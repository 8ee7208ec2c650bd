"""Words of a command as its program reads them: its form, options and operands, and the commands that it starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from agentnb.commands.programs import OptionSpec, ProgramForm, names_of_forms, program_forms, program_name
from agentnb.commands.shell_script import Word

COMPUTED = "\0"
"""Placeholder for a text that bash computes."""
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
HARMLESS_NAME = re.compile(
    r"(?!.*_proxy$|histchars$)[a-z_][a-z0-9_]*|LANG|LANGUAGE|LC_[A-Z]+|TZ|CI|DEBUG|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES"
    r"|PYTHONDONTWRITEBYTECODE|PYTHONUNBUFFERED|PYTHONHASHSEED|PYTHONIOENCODING|PYTHONUTF8|NODE_ENV|RUST_BACKTRACE|VERBOSE"
)
"""Variables that do not affect programs: lower-case ones used by scripts, and a few known ones."""
_SED_ADDRESS = r"(?:\d++|\$|/(?:[^/\\\n]|\\.)*+/I?)"
# No possessive quantifier after a lookahead: Python before 3.11.5 does not match it.
_SED_COMMAND = (
    r"(?:[qQ]\d*+|[pdDPgGhHnNx=}]|[aic][^\n]*+|s([/|#,:@])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiIM\d]*+"
    r"|y/(?:[^/\\\n]|\\.)*+/(?:[^/\\\n]|\\.)*+/)"
)
_SED = re.compile(
    rf"(?:\s*+(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)?+\s*+!?+\s*+(?:\{{|{_SED_COMMAND}\s*+(?:[;\n]|$|(?=\}}))))*+\s*+"
)
"""Scripts for sed that neither run a command nor name a file."""
_SED_DELIMITERS = "/|#,:@"
_AWK = re.compile(r"system|getline|\||@|\\\n|print[^>]*>")
"""Signs that an awk program, once ``||`` has been removed from it, may start other programs or write a file."""


class Option(NamedTuple):
    """Option of a command."""

    form: ProgramForm
    names: tuple[str, ...]
    """The option's name in the table, or the names of all options of which it may be an abbreviation."""
    spelled: str
    values: tuple[Word, ...] = ()

    @property
    def value(self) -> str:
        """Text of the option's values; empty if it has none."""
        return " ".join(map(_text, self.values))


class Feature(NamedTuple):
    """A word through which a command starts a program, runs a text, or names a file to write to."""

    form: str
    name: str
    value: str
    is_file: bool = False
    """True if the value names a file or folder to write to."""


@dataclass(slots=True)
class Invocation:
    """A command as its program reads it."""

    program: str
    """The program's name in the table; empty if bash computes it."""
    form: ProgramForm | None = None
    """The form's row in the table."""
    options: list[Option] = field(default_factory=list)
    operands: list[Word] = field(default_factory=list)
    is_uncertain: bool = False
    """True if a word that bash computes may turn out to be an option, or several words."""
    is_unlisted: bool = False
    """True if the program has forms and this form is not in the table."""

    @property
    def names(self) -> set[str]:
        """Names of the command's options that belong to its form."""
        return {name for option in self.options if option.form is self.form for name in option.names}

    @property
    def targets(self) -> list[Word]:
        """The operands after those that the table skips; empty if there is an option that ends them."""
        if self.form is None or self.form.ends & self.names:
            return []
        return self.operands[self.form.skip :]


def invocation_of(words: Sequence[Word]) -> Invocation:
    """Parse a command as its program does."""
    if not words or words[0].value is None:
        return Invocation("", operands=list(words[1:]), is_uncertain=True)
    name = program_name(words[0].value)
    invocation = Invocation(name, program_forms().get(name))
    if invocation.form is None:
        invocation.operands = list(words[1:])
        invocation.is_uncertain = any(map(_may_be_option, words[1:]))
    else:
        _Reader(invocation, words[1:]).read(invocation.form)
    return invocation


class _Reader:
    """Reads the words after the program."""

    def __init__(self, invocation: Invocation, words: Sequence[Word]) -> None:
        self._into, self._words, self._at = invocation, words, 0

    def read(self, form: ProgramForm) -> None:
        """Read the options and operands of a form."""
        self._form = self._into.form = form
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            text = word.beginning
            self._into.is_uncertain |= _may_be_option(word)
            if text == "--" and word.value is not None and not self._form.has_words:
                break
            if self._read_option(word, text):
                if self._form.finals & set(self._into.options[-1].names):
                    break
            elif not self._has_entered(word):
                self._add_operand(word)
                if self._form.stops:
                    break
        for word in self._words[self._at :]:
            self._add_operand(word)

    def _add_operand(self, word: Word) -> None:
        self._into.operands.append(word)
        name = self._form.signs.get(word.prefix[:1])
        if name is not None and word.value != word.prefix[:1]:
            spec = self._form.spec(name)
            self._into.options.append(Option(self._form, (spec.name,), spec.name))

    def _has_entered(self, word: Word) -> bool:
        """Switch to the form named by the first operand; return False if there is no such form."""
        if self._into.operands or self._form.name not in names_of_forms():
            return False
        inner = program_forms().get(f"{self._form.name} {word.value}")
        if inner is None:
            self._into.is_unlisted = True
            return False
        self._form = self._into.form = inner
        return True

    def _read_option(self, word: Word, text: str) -> bool:
        """Read an option; return False if the word is not an option."""
        is_first = not self._into.operands and not self._into.options
        if text.startswith("--") or (self._form.has_words and re.match(r"-.", text)):
            self._read_long(word, text)
        elif re.match(r"-.", text) or (self._form.operands == "script" and re.match(r"\+.", text)):
            self._read_short(word, text)
        elif self._form.is_bundled and is_first and text and word.value is not None:
            for letter in text:
                self._add((self._form.spec(f"-{letter}"),), f"-{letter}")
        else:
            return False
        return True

    def _read_long(self, word: Word, text: str) -> None:
        name, equals, value = text.partition("=")
        specs = self._form.long_options(name)
        if word.value is None and not equals:
            self._into.is_uncertain = True
        self._add(specs, name, _rest(word, value) if equals else None)

    def _read_short(self, word: Word, text: str) -> None:
        if text in self._form.options:
            return self._add((self._form.spec(text),), text)
        position = 1
        while position < len(text):
            length = 2 if f"-{text[position : position + 2]}" in self._form.options else 1
            spelling, position = f"{text[0]}{text[position : position + length]}", position + length
            spec = self._form.spec(spelling) if text[0] == "-" else OptionSpec(spelling, int(spelling in ("+o", "+O")))
            if spec.values or spec.may_attach:
                has_rest = bool(text[position:]) or word.value is None
                return self._add((spec,), spelling, _rest(word, text[position:]) if has_rest else None)
            self._add((spec,), spelling)
        if word.value is None:
            self._into.is_uncertain = True
        return None

    def _add(self, specs: tuple[OptionSpec, ...], spelled: str, attached: Word | None = None) -> None:
        """Add an option with its values: the attached value, or the words that follow."""
        names = tuple(spec.name for spec in specs)
        values: tuple[Word, ...] = () if attached is None else (attached,)
        if self._form.commands & set(names):
            values = self._until_semicolon()
        elif attached is None:
            count = max(spec.values for spec in specs)
            values = tuple(self._words[self._at : self._at + count])
            self._at += count
            self._into.is_uncertain |= any(word.may_split for word in values)
        self._into.options.append(Option(self._form, names, spelled, values))

    def _until_semicolon(self) -> tuple[Word, ...]:
        words = self._words[self._at :]
        ends = [index for index, word in enumerate(words) if word.value == ";" or _ends_batch(words, index)]
        end = ends[0] if ends else len(words)
        self._at += end + 1
        return tuple(words[:end])


def _ends_batch(words: Sequence[Word], index: int) -> bool:
    return words[index].value == "+" and index > 0 and words[index - 1].value in ("{}", None)


def _rest(word: Word, text: str) -> Word:
    """Return the rest of a word as a word of its own."""
    return Word(text, text if word.value is not None else None, text, word.may_split)


def _may_be_option(word: Word) -> bool:
    """True if a word that bash computes may be any option; a process substitution is a file."""
    return word.value is None and word.prefix in ("", "-") and not word.raw.startswith(("<(", ">("))


class StartedCommand(NamedTuple):
    """A command that another one starts: its words, or its text for a shell."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    text: str = ""


def find_started(invocation: Invocation) -> tuple[list[StartedCommand], bool]:
    """Return the commands that a command starts through its operands, and True if the list is complete."""
    form, targets = invocation.form, invocation.targets
    if form is None:
        return [], True
    commands = [
        StartedCommand(tuple(_with_found_files(option.values, invocation)))
        for option in invocation.options
        if option.form.commands & set(option.names)
    ]
    commands += [
        StartedCommand((*option.values, *invocation.operands))
        for option in invocation.options
        if form.modules & set(option.names)
    ]
    is_all = True
    if form.operands == "opaque":
        is_all = not (invocation.operands or invocation.options)
    elif form.operands == "command" and (targets or invocation.options):
        is_all = all(_is_known(option) for option in invocation.options) and not _takes_text(invocation)
        commands += _started_words(invocation, targets)
        commands += [
            StartedCommand(text=option.value) for option in invocation.options if option.names[0] == "-S" and form.name == "env"
        ]
        is_all = is_all and not any("\\" in command.text or "$" in command.text for command in commands)
    elif form.operands in ("shell", "trap", "script"):
        texts, is_all = _started_texts(form, invocation, targets)
        commands += texts
    return commands, is_all and not any(COMPUTED in command.text for command in commands)


def _is_known(option: Option) -> bool:
    return bool(option.values) or option.names[0] in {spec.name for spec in option.form.options.values()}


def _takes_text(invocation: Invocation) -> bool:
    """True if an option's value is a command that is not parsed, as with ``npx -c``."""
    return bool(
        invocation.form
        and invocation.form.name != "env"
        and {"-c", "--call"} & invocation.names & {name for name, _ in invocation.form.starts}
    )


def _started_words(invocation: Invocation, targets: Sequence[Word]) -> Iterator[StartedCommand]:
    words, assignments = list(targets), []
    while invocation.program in ("env", "sudo", "doas") and words and (match := ASSIGNMENT.match(words[0].beginning)):
        word = words.pop(0)
        assignments.append((match[1], _rest(word, word.beginning[match.end() :])))
    if invocation.program == "xargs":
        if not words:
            return
        replaced = next((option.value or "{}" for option in invocation.options if option.names[0] in ("-I", "-i")), None)
        words = [word if replaced is None or replaced not in word.raw else _make_computed(word, replaced) for word in words]
        if replaced is None:
            words.append(Word("", None, "", may_split=True))
    if words or assignments:
        yield StartedCommand(tuple(words), tuple(assignments))


def _started_texts(form: ProgramForm, invocation: Invocation, targets: Sequence[Word]) -> tuple[list[StartedCommand], bool]:
    """Return the texts that a shell runs, and True if there can be no others."""
    if form.operands == "script":
        if "-c" not in invocation.names:
            return [], bool(targets) or bool(invocation.names & {"--version", "--help"})
        targets = targets[:1]
    elif form.operands == "trap":
        targets = targets[:1]
    text = " ".join(map(_text, targets))
    return ([StartedCommand(text=text)] if text and text != "-" else []), not (
        invocation.is_uncertain and form.operands == "script"
    )


def _with_found_files(words: Sequence[Word], invocation: Invocation) -> Iterator[Word]:
    """Yield the words of a command in ``find -exec``, with the matched files as computed words."""
    start = invocation.operands[0].value if invocation.operands else "."
    prefix = "" if start is None or start.startswith("-") else start
    for word in words:
        yield _make_computed(word, "{}", prefix) if "{}" in word.raw else word


def _make_computed(word: Word, replaced: str, prefix: str = "") -> Word:
    before = word.beginning.partition(replaced)[0]
    return Word(word.raw, None, before or prefix)


def features_of(invocation: Invocation) -> list[Feature]:
    """Return every feature, other than operands, that starts a program, runs a text, or names a file to write to."""
    features = [feature for option in invocation.options for feature in _features_of_option(option)]
    form = invocation.form
    if form is None:
        return features
    if invocation.is_unlisted and form.name in names_of_forms() and " " not in form.name:
        features.append(Feature(form.name, "form", _text(invocation.operands[0])))
    scripts = [word for option in invocation.options if option.names[0] == "-e" for word in option.values]
    if form.operands == "sed":
        features += [
            Feature(form.name, "script", _text(word)) for word in (*scripts, *invocation.targets[:1]) if not _is_plain_sed(word)
        ]
    elif form.operands == "awk":
        features += [Feature(form.name, "script", _text(word)) for word in invocation.targets[:1] if not _is_plain_awk(word)]
    elif form.operands in ("text", "output"):
        features += [Feature(form.name, "operand", _text(word)) for word in invocation.targets]
    elif form.operands == "names":
        features += [Feature(form.name, "operand", _text(word)) for word in invocation.targets if not sets_harmless_name(word)]
    elif form.operands == "assignments":
        features += [Feature(form.name, "operand", _text(word)) for word in invocation.operands if _may_assign(word)]
    can_start = form.starts or form.writes or form.operands in ("sed", "awk", "text", "output", "assignments", "names")
    if invocation.is_uncertain and can_start:
        features.append(Feature(form.name, "uncertain", COMPUTED))
    return features


def _features_of_option(option: Option) -> Iterator[Feature]:
    for is_file, named in ((False, option.form.starts), (True, option.form.writes)):
        for name, pattern in named:
            value = _text(option.values[0]) if is_file and option.values else option.value
            is_value = not pattern or COMPUTED in value or fnmatchcase(value, pattern)
            if name in option.names and is_value:
                yield Feature(option.form.name, name, value, is_file)


def sets_harmless_name(word: Word) -> bool:
    """True if an operand of the form ``name=value`` sets a variable that does not affect programs."""
    text = word.beginning
    name, equals, _ = text.partition("=")
    return (word.value is not None or bool(equals)) and HARMLESS_NAME.fullmatch(name.removesuffix("+")) is not None


def _text(word: Word) -> str:
    return COMPUTED if word.value is None else word.value


def _is_plain_sed(word: Word) -> bool:
    """True if a sed script only edits. In some versions of sed, a delimiter in brackets ends the expression."""
    text = word.value
    if text is None or any(
        re.search(rf"\[[^\]]*{re.escape(sign)}", text) for sign in _SED_DELIMITERS if f"s{sign}" in f"s/{text}"
    ):
        return False
    return _SED.fullmatch(text) is not None


def _is_plain_awk(word: Word) -> bool:
    return word.value is not None and _AWK.search(word.value.replace("||", "  ")) is None


def _may_assign(word: Word) -> bool:
    return "=" in word.beginning or (word.value is None and not word.prefix)
