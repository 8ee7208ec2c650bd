"""Models, which answer requests: one protocol, one file per kind of model.

Your own model is any object with a name and a stream::

    from agentnb.models import Message, Reply, Text, TextDelta

    class Echo:
        name = "own:echo"

        async def stream(self, request):
            text = request.messages[-1].text
            yield TextDelta(text)
            yield Reply(Message("assistant", (Text(text),)))

    echo = Echo()  # in a cell: %%agent -m echo; in Python: Agent(echo)

A model that calls tools adds a ``ToolCall`` to the message: docs/models.md, "A model of your own".
"""

from typing import TYPE_CHECKING

from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Image, Message, Text
from agentnb.core.request import Request
from agentnb.errors import module_getattr
from agentnb.models.model import Model, Reply, Retry
from agentnb.models.recorded_model import RecordedModel
from agentnb.models.registry import make_model
from agentnb.models.scripted import ScriptedModel
from agentnb.models.simulated.simulated_model import SimulatedModel
from agentnb.models.transport.remote import RemoteModel

__all__ = [
    "Image",
    "Message",
    "Request",
    "Text",
    "TextDelta",
    "Model",
    "RecordedModel",
    "RemoteModel",
    "Reply",
    "Retry",
    "ScriptedModel",
    "SimulatedModel",
    "make_model",
]

if not TYPE_CHECKING:  # a type checker would type every name as Any, misspelled ones too
    __getattr__ = module_getattr(__name__, __all__)
