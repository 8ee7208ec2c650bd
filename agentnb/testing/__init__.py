"""A test server that implements the providers' HTTP APIs: `LoopbackServer`, the lines of its script, and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentnb.errors import module_getattr
from agentnb.testing.loopback_server import LoopbackServer
from agentnb.testing.received import Received
from agentnb.testing.replies.lines import Answer, Opaque
from agentnb.testing.replies.misbehaviour import (
    NOT_COUNTED,
    BrokenJson,
    Cut,
    EmptyReply,
    EndEarly,
    Endless,
    ErrorInStream,
    Misbehaviour,
    Miscount,
    NotJson,
    Overflow,
    Sloppy,
    Stall,
    Status,
    UnknownEvent,
    overflow,
)

__all__ = [
    "LoopbackServer",
    "Received",
    "Answer",
    "Opaque",
    "Misbehaviour",
    "Status",
    "Overflow",
    "overflow",
    "ErrorInStream",
    "Stall",
    "Endless",
    "Cut",
    "EndEarly",
    "BrokenJson",
    "UnknownEvent",
    "Sloppy",
    "Miscount",
    "NOT_COUNTED",
    "NotJson",
    "EmptyReply",
]

if not TYPE_CHECKING:  # a type checker would type every name as Any, misspelled ones too
    __getattr__ = module_getattr(__name__, __all__)
