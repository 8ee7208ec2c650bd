"""Models: what answers a request. One protocol, one file a kind."""

from agentnb.errors import NotAvailable
from agentnb.models.model import Model, Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.models.simulated import SimulatedModel


def __getattr__(name: str) -> object:
    if name == "RecordedModel":
        raise NotAvailable("agentnb.models.RecordedModel is not in this version of agentnb yet", "The CHANGELOG says what is")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Model", "Reply", "ScriptedModel", "SimulatedModel"]
