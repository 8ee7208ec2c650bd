"""The words and operators of shell commands."""

from __future__ import annotations

import re
import shlex

OPERATORS = ";&|()\n"
QUOTED = re.compile(r"'[^']*'|\\.|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_RESERVED = """
    ! { } [[ case do done elif else esac fi for function if in select then until while
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that begin a structure of the shell."""


def tokens_of(command: str) -> list[str]:
    """Return the words and operators of a command; raise `ValueError` for a quotation that does not end."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=OPERATORS + "<>")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    return list(lexer)


def simple_commands(tokens: list[str]) -> list[list[str]]:
    """Return the words of each simple command, without assignments before it and without redirections."""
    found: list[list[str]] = [[]]
    is_target = False
    for token in tokens:
        if token and all(sign in OPERATORS + "<>" for sign in token):
            is_target = "<" in token or ">" in token
            if not is_target or any(sign in OPERATORS for sign in token.replace("&", "")):
                found.append([])
        elif is_target:
            is_target = False
        elif found[-1] or not _ASSIGNMENT.match(token):
            found[-1].append(token)
    return [words for words in found if words]
