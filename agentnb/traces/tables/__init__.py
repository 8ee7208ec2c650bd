"""Runs as pandas tables: one function per table, each a list of columns, which `columns` explains.

Each takes a run, several runs, a path, a folder, a glob or a store, of agentnb or of another product, and returns a new
DataFrame. Strings are ``str``, counts that may be unknown ``Int64``, times UTC with microseconds, durations seconds; rounds
count from 1, as in the cards; what is unknown is missing, never 0.
"""

from agentnb.traces.tables.catalogue import NAMES, columns
from agentnb.traces.tables.detections import detections
from agentnb.traces.tables.events import events
from agentnb.traces.tables.guidance import guidance
from agentnb.traces.tables.loops import loops
from agentnb.traces.tables.messages import messages
from agentnb.traces.tables.patterns import patterns
from agentnb.traces.tables.questions import questions
from agentnb.traces.tables.relation import relation
from agentnb.traces.tables.rounds import rounds
from agentnb.traces.tables.runs import runs
from agentnb.traces.tables.steps import steps
from agentnb.traces.tables.todos import todos
from agentnb.traces.tables.tool_calls import tool_calls
from agentnb.traces.tables.usage import usage

__all__ = [
    "NAMES",
    "columns",
    "detections",
    "events",
    "guidance",
    "loops",
    "messages",
    "patterns",
    "questions",
    "relation",
    "rounds",
    "runs",
    "steps",
    "todos",
    "tool_calls",
    "usage",
]
