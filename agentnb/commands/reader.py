"""Parser for bash's grammar: lists, pipelines, compounds and simple commands."""

from __future__ import annotations

import re
from functools import lru_cache

from agentnb.commands.builtins_of_bash import check_builtin
from agentnb.commands.shell_script import Redirection, Script, SimpleCommand, Word
from agentnb.commands.shell_words import ASSIGNMENT, KNOWN_NUMBERS, NAME, Facts, Unreadable, WordReader

LEVELS_OF_A_TEXT = 5
"""Number of nesting levels for which an inner text counts, since its characters are read again."""
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
BLANKS = re.compile(r"[ \t]+")
_REDIRECTIONS = """
    &> &>> < << <<- <<< <& <> > >> >& >|
"""
REDIRECTIONS = frozenset(_REDIRECTIONS.split())
OPERATORS = REDIRECTIONS | {"&&", "||", ";", ";;", ";&", ";;&", "|", "|&", "&", "(", ")", "\n"}
_RESERVED = """
    ! [[ { } case coproc do done elif else esac fi for function if in select then time until while
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that begin or continue a compound command."""
RESERVED_WORD = re.compile(r"[a-z{}!\[]+(?=[ \t\n;&|()<>]|\Z)")
DECLARATIONS = frozenset(("declare", "export", "local", "readonly", "typeset"))
DESCRIPTOR = re.compile(r"\d{1,9}|\{[A-Za-z_]\w*\}", re.ASCII)
NUMBER = re.compile(r"-?\d*|\$\(\([^()]*\)\)|\$[#?$!]|\$\{#\w+\}", re.ASCII)
EXPANDED_TO_ITSELF = re.compile(r"[\w./@%+,:=-][\w./@%+,:= -]*")
EVALUATING = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"))
"""Operators in ``[[ ]]`` that evaluate their operands."""
_READ_BY_BASH = """
    BASHOPTS BASH_ALIASES BASH_CMDS BASH_ENV ENV POSIXLY_CORRECT PS4 SHELLOPTS TEXTDOMAIN TEXTDOMAINDIR
"""
READ_BY_BASH = frozenset(_READ_BY_BASH.split())
"""Variables that cause bash to start programs or to read commands differently."""


@lru_cache(maxsize=256)
def read_script(text: str) -> Script:
    """Parse a command as ``bash -c`` does."""
    facts = Facts()
    try:
        if CONTROL.search(text):
            raise Unreadable("a control character")
        CommandReader(text, facts).read_whole()
        _check_variables(facts)
    except Unreadable as error:
        facts.flag(str(error))
    is_list = facts.is_list and bool(facts.commands) and not facts.problem
    return Script(tuple(facts.commands), facts.problem, is_list, frozenset(facts.texts | facts.numbers))


def _check_variables(facts: Facts) -> None:
    unknown = {name for name in facts.evaluated - facts.numbers if not KNOWN_NUMBERS.fullmatch(name)}
    if bad := sorted(unknown | (facts.evaluated & facts.texts)):
        facts.flag(f"arithmetic with the text of {bad[0]}")
    if bad := sorted(READ_BY_BASH & (facts.texts | facts.numbers)):
        facts.flag(f"bash's variable {bad[0]}")


class CommandReader(WordReader):
    """Parser for commands that collects the simple ones."""

    def read_whole(self) -> None:
        """Parse the text to its end."""
        self.read_commands("")
        if self.pending:
            raise Unreadable("an unterminated here-document")

    def read_text(self, text: str) -> None:
        """Parse a text that bash is going to run as commands."""
        self.facts.is_list = False
        inner = CommandReader(text, self.facts, self.depth)
        inner.enter(LEVELS_OF_A_TEXT)
        inner.read_whole()

    def read_commands(self, *ends: str, may_be_empty: bool = True) -> None:
        """Parse a list of commands that ends with one of these words or operators."""
        self.skip_lines()
        count = 0
        while not self._at(ends):
            self._and_or()
            count += 1
            if self._operator() not in (";", "&", "\n"):
                break
            if self._take_operator() == "&":
                self.facts.is_list = False
            self.skip_lines()
        if not self._at(ends) or not (count or may_be_empty):
            raise self._unexpected(self.pos)

    def _unexpected(self, at: int) -> Unreadable:
        return Unreadable(f"an unexpected {self.text[at : at + 10]!r}" if self.peek() else "its end is missing")

    def skip_lines(self) -> None:
        """Skip blanks, comments and line breaks."""
        while self._blanks() == "\n":
            self._take_operator()

    def _blanks(self) -> str:
        """Skip blanks and a comment, and return the next character."""
        while (sign := self.peek()) in (" ", "\t", "#"):
            match = BLANKS.match(self.text, self.pos)
            end = match.end() if match else self.text.find("\n", self.pos)
            self.pos = end if end >= 0 else len(self.text)
        return sign

    def _at(self, ends: tuple[str, ...]) -> bool:
        sign = self._blanks()
        return bool({self._operator() or self._reserved_word()} & set(ends)) if sign else "" in ends

    def _operator(self) -> str:
        """Return the next operator, or an empty string."""
        start = self.pos
        operator = self._read_operator()
        self.pos = start
        return operator

    def _read_operator(self) -> str:
        self._blanks()
        operator = ""
        if self.starts_process():
            return ""
        while operator != "\n" and (sign := self.peek()) and operator + sign in OPERATORS:
            operator += sign
            self.pos += 1
        return operator

    def _take_operator(self) -> str:
        operator = self._read_operator()
        if operator == "\n":
            self._here_documents()
        return operator

    def _reserved_word(self) -> str:
        """Return the next reserved word, or ``none``."""
        self._blanks()
        match = RESERVED_WORD.match(self.text, self.pos)
        return match[0] if match and match[0] in RESERVED else "none"

    def _keyword(self, word: str) -> bool:
        if self._reserved_word() != word:
            return False
        self.pos += len(word)
        return True

    def _expect_keyword(self, word: str) -> None:
        if not self._keyword(word):
            raise Unreadable(f"no {word!r} where bash expects one")

    def _and_or(self) -> None:
        self._pipeline()
        while self._operator() in ("&&", "||"):
            self._take_operator()
            self.skip_lines()
            self._pipeline()

    def _pipeline(self) -> None:
        while self._reserved_word() in ("!", "time"):
            self.facts.is_list = False
            if self._keyword("time"):
                self._options_of_time()
            else:
                self._keyword("!")
        self._command()
        while self._operator() in ("|", "|&"):
            self._take_operator()
            self.skip_lines()
            self._command()

    def _options_of_time(self) -> None:
        for option in ("-p", "--"):
            if self._blanks() == "-":
                start = self.pos
                self.draft_word()
                if _join_lines(self.text[start : self.pos]) != option:
                    self.pos = start

    def _command(self) -> None:
        sign, word = self._blanks(), self._reserved_word()
        if sign == "(" or word != "none":
            self._compound(word)
        else:
            self._simple()

    def _compound(self, word: str) -> None:
        self.facts.is_list = False
        self.enter()
        if word == "none":
            self._parenthesis()
        elif word in COMPOUNDS:
            self._keyword(word)
            COMPOUNDS[word](self)
        else:
            raise Unreadable(f"an unexpected {word!r}")
        self.depth -= 1
        start, redirections = self.pos, []
        while redirection := self._redirection():
            redirections.append(redirection)
        if redirections:
            self.facts.commands.append(SimpleCommand(self.text[start : self.pos].strip(), (), (), tuple(redirections)))

    def _parenthesis(self) -> None:
        self.expect("(")
        if self.take("("):
            self.arithmetic("))")
        else:
            self.read_commands(")", may_be_empty=False)
            self.expect(")")

    def _group(self) -> None:
        self._block("}")

    def _block(self, *ends: str) -> str:
        """Parse commands and the word that ends them, and return that word."""
        self.read_commands(*ends, may_be_empty=False)
        word = self._reserved_word()
        self._keyword(word)
        return word

    def _if(self) -> None:
        word = "elif"
        while word == "elif":
            self._block("then")
            word = self._block("elif", "else", "fi")
        if word == "else":
            self._block("fi")

    def _while(self) -> None:
        self._block("do")
        self._block("done")

    def _for(self) -> None:
        if self._blanks() == "(":
            self.pos += 1
            self.expect("(")
            self.arithmetic("))")
        else:
            name = self._name()
            self.skip_lines()
            is_number = False
            if self._keyword("in"):
                words = self._words()
                is_number = all(
                    NUMBER.fullmatch(word.raw) or re.fullmatch(r"\{\d+\.\.\d+\}", word.raw, re.ASCII) for word in words
                )
            self.assign(name, is_number=is_number)
        if self._operator() in (";", "\n"):
            self._take_operator()
        self.skip_lines()
        if self._keyword("{"):
            self._block("}")
        else:
            self._expect_keyword("do")
            self._block("done")

    def _name(self) -> str:
        name = self._next_word().raw
        if not NAME.fullmatch(name):
            raise Unreadable("a variable whose name is computed")
        return name

    def _words(self) -> list[Word]:
        words = []
        while self._blanks() and self.at_word():
            words.append(self.word())
        return words

    def _case(self) -> None:
        self._next_word()
        self.skip_lines()
        self._expect_keyword("in")
        self.skip_lines()
        while not self._keyword("esac"):
            self.take("(")
            self._next_word()
            while self._operator() == "|":
                self._take_operator()
                self._next_word()
            self._blanks()
            self.expect(")")
            self.read_commands(";;", ";&", ";;&", "esac")
            if self._operator() in (";;", ";&", ";;&"):
                self._take_operator()
            self.skip_lines()

    def _next_word(self) -> Word:
        self._blanks()
        return self.word()

    def _condition(self) -> None:
        words: list[Word] = []
        while True:
            sign = self._blanks()
            operator = self._operator()
            if operator in ("(", ")", "&&", "||", "\n", "<", ">"):
                if words and words[-1].raw == "=~":
                    raise Unreadable("a regular expression in parentheses")
                self._take_operator()
                continue
            if not sign or operator:
                raise Unreadable(f"an unexpected {operator!r} in [[ ]]")
            words.append(self.word())
            if words[-1].raw == "]]":
                break
            if self.peek() in ("(", "<", ">", "|", "&", ";"):
                raise Unreadable("an extended pattern in [[ ]]")
        for number, word in enumerate(words):
            if word.value in EVALUATING or (word.value is None and word.raw.startswith("-")):
                for operand in (*words[max(0, number - 1) : number], *words[number + 1 : number + 2]):
                    self.evaluate(operand)

    def evaluate(self, word: Word) -> None:
        """Record that bash evaluates a word's text."""
        if match := re.fullmatch(rf'"?\$\{{?({NAME.pattern})\}}?"?', word.raw) or NAME.fullmatch(word.raw):
            self.facts.evaluated.add(match[match.re.groups])
        elif not NUMBER.fullmatch(word.raw.strip('"')):
            self.facts.flag("text that is evaluated as arithmetic")

    def _function(self) -> None:
        self._next_word()
        if self._blanks() == "(":
            self.pos += 1
            self._blanks()
            self.expect(")")
        self._body()

    def _body(self) -> None:
        self.skip_lines()
        word = self._reserved_word()
        if self.peek() != "(" and word not in COMPOUNDS:
            raise Unreadable("a function without a body")
        self._compound(word)

    def _coprocess(self) -> None:
        if self._blanks() == "(" or self._reserved_word() in COMPOUNDS:
            self._command()
            return
        start = len(self.facts.commands)
        self._simple()
        words = [word.raw for command in self.facts.commands[start:] for word in command.words[1:2]]
        if RESERVED & set(words) or self._blanks() == "(":
            raise Unreadable("a coprocess with a name")

    def _simple(self) -> None:
        self._blanks()
        start = end = self.pos
        words: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        redirections: list[Redirection] = []
        while True:
            if redirection := self._redirection():
                redirections.append(redirection)
            elif self._blanks() and self.at_word():
                self._word_of_command(words, assignments)
            else:
                break
            end = self.pos
        if end == start:
            raise self._unexpected(start)
        if len(words) == 1 and not assignments and not redirections and self.peek() == "(":
            self.pos += 1
            self._blanks()
            self.expect(")")
            self.facts.is_list = False
            self._body()
            return
        self.start(SimpleCommand(self.text[start:end], tuple(words), tuple(assignments), tuple(redirections)))

    def start(self, command: SimpleCommand) -> None:
        """Record a command and, if it is a builtin, the commands that it starts."""
        self.facts.commands.append(command)
        self.enter()
        check_builtin(self, command)
        self.depth -= 1

    def _word_of_command(self, words: list[Word], assignments: list[tuple[str, Word]]) -> None:
        start = self.pos
        takes_array = not words or words[0].value in DECLARATIONS
        draft = self.draft_word(is_assignable=not words, takes_array=takes_array)
        mask, raw = draft.mask, self.text[start : self.pos]
        assignment = None if words else ASSIGNMENT.match(mask)
        if assignment and re.match(rf"{assignment[1]}(?:\[[^=]*\])?\+?=", _join_lines(raw)):
            value = draft.value(raw[raw.find("=") + 1 :], assignment.end())
            assignments.append((assignment[1], value))
            self.assign(assignment[1], is_number=NUMBER.fullmatch(value.raw.strip('"')) is not None)
            return
        if not words and mask in RESERVED and raw != mask:
            raise Unreadable("a line continuation inside a bash word")
        is_declared = bool(words) and words[0].raw in DECLARATIONS and ASSIGNMENT.match(mask) is not None
        words.append(draft.value(raw) if is_declared else draft.word(raw))

    def _redirection(self) -> Redirection | None:
        self._blanks()
        start, operator = self.pos, self._operator()
        if not operator and self.at_word() and self.peek() in "{0123456789":
            self.draft_word()
            mask = _join_lines(self.text[start : self.pos])
            operator = self._operator() if DESCRIPTOR.fullmatch(mask) and self.peek() in ("<", ">") else ""
            if operator and mask.startswith("{"):
                self.assign(mask[1:-1], is_number=True)
        if operator not in REDIRECTIONS:
            self.pos = start
            return None
        self._take_operator()
        self._blanks()
        if operator in (">&", "<&"):
            return Redirection(operator, self._read_duplicate())
        if operator in ("<<", "<<-"):
            start = self.pos
            draft = self.draft_word()
            raw = self.text[start : self.pos]
            if re.search(r"[$`\n]", raw):
                raise Unreadable("a here-document with a computed delimiter")
            self.pending.append((draft.text, re.search(r"['\"\\]", raw) is not None, operator == "<<-"))
            return Redirection(operator, None)
        word = self.word()
        return Redirection(operator, None if operator == "<<<" else word)

    def _read_duplicate(self) -> Word | None:
        """Read the word after ``>&`` and return the file that it names. Bash expands this word twice, even in quotes."""
        if self.take("-"):
            return None
        word = self.word()
        if word.value is None:
            self.evaluate(word)
        elif not EXPANDED_TO_ITSELF.fullmatch(word.value):
            self.facts.flag("a file after >& that bash expands twice")
        return None if re.fullmatch(r"\d+-?", word.value or "") else word

    def _here_documents(self) -> None:
        if self.held:
            raise Unreadable("a substitution on the line of a here-document")
        pending, self.pending = self.pending, []
        for delimiter, is_quoted, strips_tabs in pending:
            body = self._body_up_to(delimiter, is_quoted=is_quoted, strips_tabs=strips_tabs)
            if not is_quoted:
                inner = CommandReader(body, self.facts, self.depth)
                inner.enter()
                inner.here_text()

    def _body_up_to(self, delimiter: str, *, is_quoted: bool, strips_tabs: bool) -> str:
        line = re.compile(r"[^\n]*" if is_quoted else r"(?:[^\\\n]|\\[\s\S])*")
        lines: list[str] = []
        while self.pos < len(self.text):
            match = line.match(self.text, self.pos)
            end = match.end() if match else self.pos
            raw, self.pos = self.text[self.pos : end], end + 1
            text = raw if is_quoted else _join_lines(raw)
            text = text.lstrip("\t") if strips_tabs else text
            if text == delimiter:
                return "".join(lines)
            lines.append(text + "\n")
        raise Unreadable("an unterminated here-document")


def _join_lines(text: str) -> str:
    """Remove line continuations; keep escaped characters with their backslash."""
    return re.sub(r"\\(\n)|(\\.)", lambda match: match[2] or "", text)


COMPOUNDS = {
    "{": CommandReader._group,
    "[[": CommandReader._condition,
    "case": CommandReader._case,
    "coproc": CommandReader._coprocess,
    "for": CommandReader._for,
    "function": CommandReader._function,
    "if": CommandReader._if,
    "select": CommandReader._for,
    "until": CommandReader._while,
    "while": CommandReader._while,
}
