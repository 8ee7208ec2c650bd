"""What is sent to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentnb.core.messages import Message
from agentnb.core.tool_spec import ToolSpec


class Request(msgspec.Struct, frozen=True):
    """One call of a model.

    ``messages`` begins with a message of the person, and messages of the assistant and of others alternate strictly.
    It is a view of the list at the time of the call: a request kept for later still shows what was sent then.
    """

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}
