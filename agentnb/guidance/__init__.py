"""Guidance: sets of texts, and the guides that decide when to send them to the model."""

from typing import TYPE_CHECKING

from agentnb.errors import module_getattr
from agentnb.guidance.guides import AlreadySaid, FailedTools, FourCells, Guide, TodoNews, intervention, workflow_reminder
from agentnb.guidance.reminder import system_reminder
from agentnb.guidance.sets import BUILT_IN, GuidanceSet, built_in, find_set

__all__ = [
    "AlreadySaid",
    "BUILT_IN",
    "FailedTools",
    "FourCells",
    "GuidanceSet",
    "Guide",
    "TodoNews",
    "built_in",
    "find_set",
    "intervention",
    "system_reminder",
    "workflow_reminder",
]

if not TYPE_CHECKING:  # a type checker would accept every name as Any, including misspelled ones
    __getattr__ = module_getattr(__name__, __all__)
