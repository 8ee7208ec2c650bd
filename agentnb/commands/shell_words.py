"""Words of shell commands: quotes, expansions and substitutions as bash reads them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from agentnb.commands.shell_script import SimpleCommand, Word

MAX_DEPTH = 20
"""Maximum nesting of compounds, substitutions and texts."""
IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
NAME = re.compile(IDENTIFIER)
_SPECIAL = r"[@*#?$!0-9-]"
PLAIN = re.compile(r"[^\s'\"`$\\<>|&;()\[]+")
"""Characters in a word that have no meaning to bash before expansion."""
DOUBLE_QUOTED = re.compile(r'[^"\\$`]+')
HERE_TEXT = re.compile(r"[^\\$`]+")
BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
ANSI_C = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
ESCAPES = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
ESCAPE = re.compile(r"\\(?:([abeEfnrtv\\'\"?])|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
WHOLE_PARAMETER = re.compile(
    rf"#(?:{IDENTIFIER}(?:\[[@*\w]*\])?|{_SPECIAL}|\d+)?\}}|!{IDENTIFIER}(?:\[[@*]\]|[@*])\}}|!\}}", re.ASCII
)
"""The rest of an expansion that yields a length or names."""
PARAMETER = re.compile(rf"{IDENTIFIER}|\d+|[@*#?$-]")
OPERATION = re.compile(r":?[-=+?]|##?|%%?|//|/[#%]?|\^\^?|,,?|@[QUuLaAEKk](?=\})|:|\}")
ARITHMETIC = re.compile(
    rf"\d[\w#@]*|\$?(?P<name>{IDENTIFIER})|\$\{{(?P<braced>{IDENTIFIER})\}}|\$[#?$!]|\$\{{#{IDENTIFIER}(?:\[[@*]\])?\}}"
    r"|(?P<open>[(\[])|(?P<close>[)\]])|[\s+*/%<>=!&|^~?:,;-]",
    re.ASCII,
)
LITERAL_INDEX = re.compile(r"""(?:[@*]|"[\w ./-]*"|'[\w ./-]*')\]""", re.ASCII)
KNOWN_NUMBERS = re.compile(r"[a-z]\w*|RANDOM|SECONDS|EPOCHSECONDS|LINENO|UID|EUID|PPID|BASHPID|COLUMNS|LINES|SHLVL", re.ASCII)
"""Variables that hold a number, or that a command does not set itself."""
ASSIGNMENT = re.compile(rf"({IDENTIFIER})(\[\0\])?\+?=")
GLOB = re.compile(r"[*?]|\[(?=.)|(?:^|(?<=[=:]))~", re.DOTALL)


ASSIGNED_EXPANSION = re.compile(r"[\1\2]|(?<=[=:])~")


class Unreadable(Exception):
    """Raised for a text that bash would not accept as a command, or that uses unsupported syntax."""


@dataclass(slots=True)
class Facts:
    """Facts found about a command, including its substitutions and inner texts."""

    commands: list[SimpleCommand] = field(default_factory=list)
    problem: str = ""
    is_list: bool = True
    numbers: set[str] = field(default_factory=set)
    """Variables set to numbers."""
    texts: set[str] = field(default_factory=set)
    """Variables set to other values."""
    evaluated: set[str] = field(default_factory=set)
    """Variables whose values are evaluated; bash then also runs substitutions in them."""

    def flag(self, problem: str) -> None:
        """Record a problem; only the first is kept."""
        self.problem = self.problem or problem


class Draft:
    """A word under construction."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._mask: list[str] = []

    @property
    def text(self) -> str:
        """The text without quotes; an expansion counts as one character."""
        return "".join(self._text)

    @property
    def mask(self) -> str:
        r"""Text with ``\0`` for quoted characters, ``\1`` for a quoted expansion and ``\2`` for an expansion that may be
        split.
        """
        return "".join(self._mask)

    def add(self, text: str, *, is_quoted: bool = False) -> None:
        """Append literal text."""
        self._text.append(text)
        self._mask.append("\0" * len(text) if is_quoted else text)

    def expand(self, *, may_split: bool) -> None:
        """Append an expansion."""
        self._text.append("$")
        self._mask.append("\2" if may_split else "\1")

    def word(self, raw: str) -> Word:
        """Return the word."""
        text, mask = self.text, self.mask
        globbed, splits, brace = GLOB.search(mask), "\2" in mask, _brace(mask)
        positions = (len(mask), mask.find("\1"), mask.find("\2"), brace, globbed.start() if globbed else -1)
        end = min(position for position in positions if position >= 0)
        may_split = splits or brace >= 0 or (globbed is not None and re.search(r"[*?\[]", mask) is not None)
        return Word(raw, text if end == len(mask) else None, "" if splits else text[:end], may_split)

    def value(self, raw: str, start: int = 0) -> Word:
        """Return the text from ``start`` on as the value of an assignment (bash does not split such values)."""
        mask = self.mask
        end = min((match.start() for match in (ASSIGNED_EXPANSION.search(mask, start),) if match), default=len(mask))
        return Word(raw, self.text[start:] if end == len(mask) else None, self.text[start:end])


def _brace(mask: str) -> int:
    """Return the position where a brace expansion may start, or -1."""
    begin, end = mask.find("{"), mask.rfind("}")
    return begin if 0 <= begin < end and re.search(r"[,.]", mask[begin:end]) else -1


class WordReader(ABC):
    """Parser for the words in a text."""

    def __init__(self, text: str, facts: Facts, depth: int = 0) -> None:
        self.text, self.facts, self.depth, self.pos = text, facts, depth, 0
        self.pending: list[tuple[str, bool, bool]] = []
        """Here-documents whose text begins after this line: the delimiter, whether it is quoted, and whether tabs are
        removed.
        """
        self.held = 0
        """Number of enclosing substitutions on the line of a here-document."""

    @abstractmethod
    def read_commands(self, *ends: str) -> None:
        """Parse a list of commands that ends with one of these words or operators."""

    @abstractmethod
    def read_text(self, text: str) -> None:
        """Parse a text that bash is going to run as commands."""

    @abstractmethod
    def evaluate(self, word: Word) -> None:
        """Record that bash evaluates a word's text."""

    @abstractmethod
    def start(self, command: SimpleCommand) -> None:
        """Record a command and, if it is a builtin, the commands that it starts."""

    def peek(self) -> str:
        """Return the next character after line continuations; empty at the end."""
        while self.text.startswith("\\\n", self.pos):
            self.pos += 2
        return self.text[self.pos : self.pos + 1]

    def take(self, sign: str) -> bool:
        """Skip this character if it is next; return whether it was."""
        if self.peek() != sign:
            return False
        self.pos += 1
        return True

    def expect(self, sign: str) -> None:
        """Skip this character, which must be next."""
        if not self.take(sign):
            raise Unreadable(f"no {sign!r} where bash expects it" if self.peek() else f"it ends before {sign!r}")

    def enter(self, levels: int = 1) -> None:
        """Count this many nesting levels, up to the limit."""
        self.depth += levels
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_DEPTH} levels")

    def starts_process(self) -> bool:
        """True if ``<(`` or ``>(`` is next."""
        if self.peek() not in ("<", ">"):
            return False
        start = self.pos
        self.pos += 1
        is_process, self.pos = self.peek() == "(", start
        return is_process

    def at_word(self) -> bool:
        """True if a word begins or continues here."""
        sign = self.peek()
        return bool(sign) and (sign not in " \t\n;&|()<>" or self.starts_process())

    def draft_word(self, *, is_assignable: bool = False, takes_array: bool = False) -> Draft:
        """Read a word, which must begin here."""
        draft, start = Draft(), self.pos
        while self.at_word():
            sign = self.peek()
            if sign == "[" and is_assignable and NAME.fullmatch(draft.mask):
                self._index(draft)
            elif sign == "[":
                self.pos += 1
                draft.add("[")
            elif sign in "<>":
                self.pos += 2
                self._substitution(draft, may_split=False)
            elif not self._quoted_or_expanded(draft, sign):
                self._plain(draft)
        if self.peek() == "(" and takes_array and self.text[self.pos - 1] == "=" and ASSIGNMENT.fullmatch(draft.mask):
            self._array(draft)
        if self.pos == start:
            raise Unreadable("no word where bash expects one" if self.peek() else "its end is missing")
        return draft

    def word(self) -> Word:
        """Read a word, which must begin here."""
        self.peek()
        start = self.pos
        return self.draft_word().word(self.text[start : self.pos])

    def _plain(self, draft: Draft) -> None:
        match = PLAIN.match(self.text, self.pos)
        text = match[0] if match else self.text[self.pos]
        if not match and text != "\r":
            raise Unreadable("non-ASCII whitespace")
        self.pos += len(text)
        draft.add(text)

    def _quoted_or_expanded(self, draft: Draft, sign: str, context: str = "") -> bool:
        """Read a quotation or expansion. ``context``: empty, ``"``, or ``<<`` for the text of a here-document."""
        if sign == "$":
            self._dollar(draft, context)
        elif sign == "`":
            self._backticks(draft, context)
        elif sign == "\\":
            following = self.text[self.pos + 1 : self.pos + 2]
            if not following:
                raise Unreadable("a backslash at its end")
            keeps = context and following not in ('$`"\\' if context == '"' else "$`\\")
            draft.add("\\" + following if keeps else following, is_quoted=True)
            self.pos += 2
        elif sign == '"' and context != "<<":
            self._double(draft)
        elif sign == "'" and not context:
            end = self.text.find("'", self.pos + 1)
            if end < 0:
                raise Unreadable("an unterminated quote")
            draft.add(self.text[self.pos + 1 : end], is_quoted=True)
            self.pos = end + 1
        else:
            return False
        return True

    def _double(self, draft: Draft) -> None:
        self.pos += 1
        while (sign := self.peek()) != '"':
            if not sign:
                raise Unreadable("an unterminated quote")
            if not self._quoted_or_expanded(draft, sign, '"'):
                self._run_of(DOUBLE_QUOTED, draft)
        self.pos += 1

    def here_text(self) -> None:
        """Read the text of a here-document that is expanded."""
        draft = Draft()
        while sign := self.peek():
            if not self._quoted_or_expanded(draft, sign, "<<"):
                self._run_of(HERE_TEXT, draft)

    def _run_of(self, kind: re.Pattern[str], draft: Draft) -> None:
        match = kind.match(self.text, self.pos)
        text = match[0] if match else self.text[self.pos]
        self.pos += len(text)
        draft.add(text, is_quoted=True)

    def _dollar(self, draft: Draft, context: str) -> None:
        self.pos += 1
        sign = self.peek()
        start, may_split = self.pos, not context
        if sign == "(":
            self.pos += 1
            if not self.take("("):
                self._substitution(draft, may_split=may_split)
                return
            self.arithmetic("))")
        elif sign == "{":
            self.pos += 1
            self._parameter(context)
            may_split = may_split or "@" in self.text[start : self.pos]
        elif sign == "[":
            raise Unreadable("arithmetic in $[ ]")
        elif sign == "'" and not context:
            self._ansi_c(draft)
            return
        elif sign == '"' and not context:
            self._double(draft)
            may_split = False
        elif name := (NAME.match(self.text, self.pos) or re.compile(_SPECIAL).match(self.text, self.pos)):
            self.pos = name.end()
            may_split = may_split or sign == "@"
        else:
            draft.add("$", is_quoted=True)
            return
        draft.expand(may_split=may_split)

    def _ansi_c(self, draft: Draft) -> None:
        match = ANSI_C.match(self.text, self.pos)
        if match is None:
            raise Unreadable("an unterminated quote")
        self.pos = match.end()
        escapes = [
            (escape[4] is None and chr(int(escape[2], 16) if escape[2] else int(escape[3], 8) if escape[3] else 1)) or "\0"
            for escape in ESCAPE.finditer(match[1])
        ]
        if "\0" in escapes or max(escapes, default="") > "~":
            draft.expand(may_split=False)
        else:
            draft.add(
                ESCAPE.sub(
                    lambda escape: ESCAPES[escape[1]] if escape[1] else chr(int(escape[2] or "0", 16) or int(escape[3], 8)),
                    match[1],
                ),
                is_quoted=True,
            )

    def _substitution(self, draft: Draft, *, may_split: bool) -> None:
        """Read the rest of a command or process substitution."""
        self.facts.is_list = False
        self.enter()
        self.held, self.pending, outer = self.held + bool(self.pending), [], (self.held, self.pending)
        self.read_commands(")")
        self.expect(")")
        self.depth -= 1
        if self.pending:
            raise Unreadable("an unterminated here-document")
        self.held, self.pending = outer
        draft.expand(may_split=may_split)

    def _backticks(self, draft: Draft, context: str) -> None:
        match = BACKTICKS.match(self.text, self.pos)
        if match is None:
            raise Unreadable("an unterminated substitution")
        if "\\\n" in match[1] or (context and "\\" in match[1]):
            raise Unreadable("backslashes in backticks")
        self.pos = match.end()
        self.read_text(re.sub(r"\\([$`\\])", r"\1", match[1]))
        draft.expand(may_split=not context)

    def _parameter(self, context: str) -> None:
        """Read the rest of ``${...}``."""
        if whole := WHOLE_PARAMETER.match(self.text, self.pos):
            self.pos = whole.end()
            return
        name = PARAMETER.match(self.text, self.pos)
        if name is None:
            raise Unreadable("an expansion with a computed name")
        self.pos = name.end()
        if self.take("["):
            self._to_index_end()
        operation = OPERATION.match(self.text, self.pos)
        if operation is None:
            raise Unreadable("an unknown form of expansion")
        self.pos = operation.end()
        if operation[0] == ":":
            self.arithmetic("}")
        elif operation[0] != "}":
            if "=" in operation[0]:
                self.assign(name[0], is_number=False)
            self._operand(context)

    def _operand(self, context: str) -> None:
        draft = Draft()
        self.enter()
        while (sign := self.peek()) != "}":
            if not sign:
                raise Unreadable("an unterminated expansion")
            if self.starts_process() or (sign == "'" and context) or (sign == '"' and context == "<<"):
                raise Unreadable("quotes or process substitution inside an expansion")
            if sign == "\\":
                self.pos += 2
            elif not self._quoted_or_expanded(draft, sign, context):
                self.pos += 1
        self.depth -= 1
        self.pos += 1

    def arithmetic(self, end: str) -> None:
        """Read an arithmetic expression and the sign that ends it."""
        brackets: list[str] = []
        while brackets or not self.text.startswith(end, self.pos):
            token = ARITHMETIC.match(self.text, self.pos)
            if token is None or (token["close"] and (not brackets or brackets.pop() != token["close"])):
                raise Unreadable("arithmetic with substitutions, quotes or other text")
            if token["open"]:
                brackets.append(")" if token["open"] == "(" else "]")
            if name := token["name"] or token["braced"]:
                self.facts.evaluated.add(name)
            self.pos = token.end()
        self.pos += len(end)

    def assign(self, name: str, *, is_number: bool) -> None:
        """Record an assignment to a variable."""
        (self.facts.numbers if is_number else self.facts.texts).add(name)

    def _index(self, draft: Draft) -> None:
        self.pos += 1
        self._to_index_end()
        if self.peek() not in ("=", "+"):
            raise Unreadable("a program whose name is computed")
        draft.add("[")
        draft.add("i", is_quoted=True)
        draft.add("]")

    def _to_index_end(self) -> None:
        if literal := LITERAL_INDEX.match(self.text, self.pos):
            self.pos = literal.end()
        else:
            self.arithmetic("]")

    def _array(self, draft: Draft) -> None:
        self.pos += 1
        self.skip_lines()
        while self.at_word():
            if self.peek() == "[":
                self.pos += 1
                self._to_index_end()
                self.expect("=")
            if self.at_word():
                self.draft_word()
            self.skip_lines()
        self.expect(")")
        if self.at_word():
            raise Unreadable("text after an array")
        draft.expand(may_split=False)

    @abstractmethod
    def skip_lines(self) -> None:
        """Skip blanks, comments and line breaks."""
