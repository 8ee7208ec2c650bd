"""Models: what answers a request. One protocol, one file a kind."""

from agentnb.models.model import Model, Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.models.simulated import SimulatedModel

__all__ = ["Model", "Reply", "ScriptedModel", "SimulatedModel"]
