"""Runs as pandas tables: one function per table, with its columns described by `columns`.

Each function takes a run, several runs, a path, a folder, a glob or a store, of agentnb or another product, and returns a new
DataFrame. Strings are ``str``, counts that may be unknown ``Int64``, times UTC with microseconds, durations seconds; rounds
count from 1, as in the cards; unknown values are missing, never 0.
"""

from typing import TYPE_CHECKING

from agentnb.errors import module_getattr
from agentnb.tables.catalogue import NAMES, columns
from agentnb.tables.detections import detections
from agentnb.tables.events import events
from agentnb.tables.guidance import guidance
from agentnb.tables.loops import loops
from agentnb.tables.messages import messages
from agentnb.tables.patterns import patterns
from agentnb.tables.plans import plans
from agentnb.tables.questions import questions
from agentnb.tables.relation import relation
from agentnb.tables.rounds import rounds
from agentnb.tables.runs import runs
from agentnb.tables.steps import steps
from agentnb.tables.todos import todos
from agentnb.tables.tool_calls import tool_calls
from agentnb.tables.usage import usage

__all__ = [
    "NAMES",
    "columns",
    "detections",
    "events",
    "guidance",
    "loops",
    "messages",
    "patterns",
    "plans",
    "questions",
    "relation",
    "rounds",
    "runs",
    "steps",
    "todos",
    "tool_calls",
    "usage",
]

if not TYPE_CHECKING:  # a type checker would take every name for Any, misspelled ones too
    __getattr__ = module_getattr(__name__, __all__)
