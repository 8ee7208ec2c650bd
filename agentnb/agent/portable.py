"""Agents as bytes for a worker process. The bytes include the notebook's tools by value, but never a key."""

from __future__ import annotations

import dataclasses
import io
import pickle
from types import FunctionType
from typing import Any, TypeVar

import msgspec

from agentnb.advice import Install
from agentnb.agent.agent import Agent
from agentnb.agent.agent_settings import AgentSettings
from agentnb.core.log.events import AnyEvent
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.registry import REMOTE, endpoint_of
from agentnb.models.transport.remote import RemoteModel
from agentnb.settings import secrets
from agentnb.tools.function import MARK, FunctionTool, as_tool, tool
from agentnb.tools.mcp.expansion import secrets as secrets_of_server
from agentnb.tools.mcp.mcp_server import MCPServer

A = TypeVar("A", bound=AgentSettings)

MSGSPEC_CACHE = "__msgspec_cache__"
"""msgspec's cache in a user's class; it cannot be pickled, and is recreated."""

METHODS = (FunctionType, property, classmethod, staticmethod)
STRUCT_CONFIG = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "omit_defaults",
    "repr_omit_defaults",
    "forbid_unknown_fields",
    "tag",
    "tag_field",
)
SENTINELS = ("MISSING", "_HAS_DEFAULT_FACTORY")
"""Objects in `dataclasses` that its classes compare by identity; they are pickled by name."""


def portable(agent: Agent) -> bytes:
    """Serialize the agent for `from_portable` in another process with the same packages.

    Functions and classes defined in the notebook are included by value, with everything they refer to; those in modules are
    included by name. A provider's model is included by name, and its key is looked up at the destination. agentnb's scripted
    and simulated models are supported, and your own model if its class sets ``portable = True`` because it holds neither a key
    nor a connection. Raises `SettingsError` for an unsupported object, and if the bytes would contain a known key.
    """
    return to_bytes(agent, f"Agent {agent.name}")


def to_bytes(value: Any, name: str) -> bytes:
    """Serialize any value; the agents, tools and models in it are handled as in `portable`. ``name``: used in
    errors.

    Raises `SettingsError` for an unsupported object, and if the bytes would contain a known key.
    """
    cloudpickle = _cloudpickle()

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc,name-defined]  # the package may be missing
        def reducer_override(self, value: Any) -> Any:
            if (recipe := _recipe_of(value)) is not None:
                return recipe
            if isinstance(value, type) and MSGSPEC_CACHE in vars(value):
                delattr(value, MSGSPEC_CACHE)
            reduced = super().reducer_override(value)
            return reduced if reduced is NotImplemented else _whole(value, reduced)

    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump(value)
    except SettingsError:
        raise
    except Exception as error:  # anything a user's object raises
        raise SettingsError(
            f"{name} cannot be sent to another process: {type(error).__name__}: {error}",
            "Open files, connections and locks inside the tool that needs them",
        ) from error
    data = buffer.getvalue()
    if any(text.encode() in data for text in secrets()):
        raise SettingsError(
            f"{name} contains a key, in a tool or in a variable that a tool uses",
            "Read the key inside the tool: os.environ[NAME]",
        )
    return data


def from_portable(data: bytes) -> Agent:
    """Return the agent in these bytes. Only use bytes from `portable`, since reading them runs the code in them.

    Raises `MissingKey` if its model is an object of a provider whose key is not set here.
    """
    agent = pickle.loads(data)
    if not isinstance(agent, Agent):
        raise SettingsError("These bytes are not an agent", "Create them with portable(agent)")
    return agent


def _cloudpickle() -> Any:
    try:
        import cloudpickle
    except ImportError as error:
        raise SettingsError(
            "Sending an agent to another process requires the package cloudpickle", Install("agentnb[stats]", lead="Install it")
        ) from error
    return cloudpickle


def _check_model(agent: AgentSettings) -> None:
    model = agent.used_model
    own = type(model).__module__.partition(".")[0] == "agentnb"
    if not (isinstance(model, str) or own or getattr(type(model), "portable", False) is True):
        raise SettingsError(
            f"The model {agent.model_name} is an object of yours, which may hold a key or a connection",
            "Use a model name, provider:model, or declare that the object holds neither: portable = True in its class",
        )


def _agent_again(kind: type[A], settings: dict[str, Any]) -> A:
    return kind(**settings)


def _recipe_of(value: Any) -> Any:
    """Return the recipe or name from which a value is recreated, or None for a value that is pickled as usual."""
    if isinstance(value, AgentSettings):
        _check_model(value)
        return _agent_again, (
            type(value),
            {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init},
        )
    if isinstance(value, MCPServer) and secrets_of_server(value):
        raise SettingsError(
            f"The MCP server {value.name} has values in env, headers or defaults, which must not leave this process",
            'Read them from the environment there: env={"TOKEN": "${TOKEN}"}',
        )
    if isinstance(value, Run):
        return _run_again, ([*value.events], value.gives_consent)
    if isinstance(value, RemoteModel):
        return _model_again, (value.name.partition(":")[0], value.model, value.options, value.retries, value.by_person)
    if type(value) is FunctionTool:
        return _tool_again, (value.function, value.settings)
    return next((name for name in SENTINELS if value is getattr(dataclasses, name, None)), None)


def _whole(value: Any, reduced: Any) -> Any:
    """Return cloudpickle's recipe for a value, corrected for tools and Struct classes."""
    marked = vars(value).get(MARK) if isinstance(value, FunctionType) else None
    if marked is not None:
        return _unmark_function(reduced, marked.settings)
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        return _struct_again, _struct_parts(value)
    return reduced


def _run_again(events: list[AnyEvent], consents: bool) -> Run:
    run = Run.from_events(events)
    run.set_consent(consents)
    return run


def _tool_again(function: Any, settings: dict[str, Any]) -> Any:
    default = as_tool(function)
    return default if default.settings == settings else FunctionTool(function, **settings)


def _unmark_function(reduced: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Any, ...]:
    """Return the recipe for a function marked as a tool: the mark is added when the function is complete."""
    make, arguments, (names, slots), *_, fill = reduced
    unmarked = {name: value for name, value in names.items() if name != MARK}
    return make, arguments, ((unmarked, slots), fill, settings), None, None, _fill_and_mark


def _fill_and_mark(function: Any, state: tuple[Any, Any, dict[str, Any]]) -> None:
    names, fill, settings = state
    fill(function, names)
    tool(**settings)(function)


def _struct_parts(kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    """Return the parts of a user's Struct class, since cloudpickle would omit its fields."""
    own = vars(kind).get("__annotations__", {})
    struct_fields = []
    for field in msgspec.structs.fields(kind):
        if field.name in own:
            default = (
                {"default": field.default}
                if field.default_factory is msgspec.NODEFAULT
                else {"default_factory": field.default_factory}
            )
            struct_fields.append((field.name, field.type, default, field.encode_name))
    config = {name: getattr(kind.__struct_config__, name) for name in STRUCT_CONFIG}
    config["kw_only"] = not set(own) & set(kind.__match_args__)
    kept = {name: value for name, value in vars(kind).items() if isinstance(value, METHODS)}
    return kind.__name__, struct_fields, kind.__bases__, kind.__module__, kept, config


def _struct_again(
    name: str, given: list[Any], bases: tuple[type, ...], module: str, kept: dict[str, Any], config: dict[str, Any]
) -> type[msgspec.Struct]:
    struct_fields = [(field, kind, msgspec.field(**default, name=encoded)) for field, kind, default, encoded in given]
    return msgspec.defstruct(name, struct_fields, bases=bases, module=module, namespace=kept, **config)


def _model_again(provider: str, model: str, options: Any, retries: Any, by_person: bool) -> RemoteModel:
    endpoint = endpoint_of(REMOTE[provider], options, by_person=by_person)
    return RemoteModel(REMOTE[provider], model, options, endpoint, retries=retries)
