"""Runs as pandas tables: one function per table, with its columns described by `columns`.

Each function takes a run, several runs, a path, a folder, a glob or a store, from agentnb or another product, and returns a new
DataFrame. Strings are ``str``, counts that may be unknown are ``Int64``, times are in UTC with microseconds, and durations are
in seconds; rounds count from 1, as on cards; unknown values are missing, never 0.
"""

from typing import TYPE_CHECKING

from agentnb.errors import module_getattr
from agentnb.tables.detections_table import detections
from agentnb.tables.events_table import events
from agentnb.tables.guidance_table import guidance
from agentnb.tables.loops_table import loops
from agentnb.tables.messages_table import messages
from agentnb.tables.patterns_table import patterns
from agentnb.tables.plans_table import plans
from agentnb.tables.questions_table import questions
from agentnb.tables.relation import relation
from agentnb.tables.rounds_table import rounds
from agentnb.tables.runs_table import runs
from agentnb.tables.steps_table import steps
from agentnb.tables.table_catalogue import NAMES, columns
from agentnb.tables.todos_table import todos
from agentnb.tables.tool_calls_table import tool_calls
from agentnb.tables.usage_table import usage

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
