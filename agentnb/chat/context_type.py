"""Context types: an agent's policy, limits, model, confirmations and prompt, depending on a conversation's subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.extension import Extension
from agentnb.chat.context_spec import NOTHING, PLAN_RULE, PROFILES, TOOLS, ContextSpec, KnownContexts
from agentnb.chat.turn_context import EXTENSION, TurnContext
from agentnb.core.messages import encodable
from agentnb.errors import SettingsError, suggest_names
from agentnb.models.model import Model
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, read_mapping, read_yaml

KEYS = ("name", "aliases", "intent", "behaviours", "profile", "tools", "plan_rules", "limits", "load")
EXAMPLE = "Write keys such as intent: and behaviours:, one per line"


def _settings(fields: Fields, name: str, functions: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    fields.refuse_unknown(KEYS)
    own = fields.text("name")
    if not own and not name:
        fields.add("", "the name is missing", "Add name: WORD")
    if own and name and own != name:
        fields.add("name", f"name is {own}, but {name} above", "Remove one of them")
    tools = fields.fields("tools")
    if tools is not None:
        tools.refuse_unknown(TOOLS)
    rules = [
        Fields(node, "plan_rules", fields.problems)
        for node in fields.items("plan_rules") or ()
        if isinstance(node, MappingNode)
    ]
    for rule in rules:
        rule.refuse_unknown(PLAN_RULE)
    return {
        "name": own or name,
        "aliases": fields.texts("aliases") or (),
        "intent": fields.text("intent") or "",
        "behaviours": fields.texts("behaviours") or (),
        "profile": fields.text("profile") or "balanced",
        "tools": {} if tools is None else {key: tools.texts(key) or () for key in TOOLS if key in tools},
        "plan_rules": tuple([{key: rule.data(key) for key in rule} for rule in rules]),
        "limits": fields.mapping("limits") or {},
        "load": _function(fields, functions),
    }


def _function(fields: Fields, functions: Mapping[str, Any]) -> Any:
    """Return the function that loads text about an entity, or None."""
    name = fields.text("load")
    if not name:
        return None
    function = functions.get(name)
    if not callable(function):
        names = [key for key, value in functions.items() if callable(value) and not key.startswith("_")]
        fields.add("load", f"unknown function {name}", lambda: suggest_names(name, names))
        return None
    return function


@dataclass(frozen=True, slots=True)
class ContextType(ContextSpec):
    """A kind of conversation, with an agent's policy, limits, model, confirmations and prompt.

    ``name``: a word; ``aliases``: other names for it. ``intent`` and ``behaviours`` are put in the system prompt.
    ``profile``: kind of model: ``speed``, ``balanced`` or ``quality``. ``tools``: ``first``, tools to put first and
    name in the prompt, and ``confirm``, calls that the person confirms every time, in every mode except ``never`` and
    ``read_only``, which deny them: names, shell patterns of names, rules in brackets, or ``effect:read``.
    ``plan_rules``: what plans must contain, in order. ``limits``: limits of a turn, with the same names as an
    agent's, such as ``max_seconds`` (None: no limit). ``load``: a function that returns text about the entity with
    this id, for the system prompt, at the start of each turn. Raises `SettingsError` for an invalid setting.
    """

    @classmethod
    def read(cls, text: str, name: str = "", functions: Mapping[str, Any] = NOTHING, source: str = "") -> ContextType:
        """Parse a context from YAML.

        ``name``: default name; ``functions``: functions that ``load:`` may name. Raises `WorkflowProblems` with every problem
        and its line, and `SettingsError` for an invalid value.
        """
        problems = Problems(source)
        node = read_mapping(text, problems, "A context", EXAMPLE)
        settings = {} if node is None else _settings(Fields(node, "context", problems), name, functions)
        problems.check()
        return cls(**settings)

    @classmethod
    def named(cls, name: str) -> ContextType:
        """Return the built-in context with this name or alias. Raises `SettingsError`, listing similar names."""
        context = builtin_contexts().get(name)
        if not isinstance(context, cls):
            raise SettingsError(
                f"There is no context {name!r}", suggest_names(name, [item.name for item in builtin_contexts()])
            )
        return context

    def apply(
        self,
        agent: Agent,
        entity: str = "",
        *,
        others: Iterable[ContextSpec] = (),
        models: Mapping[str, str | Model] | None = None,
    ) -> Agent:
        """Return the agent for turns in this context.

        Without a policy or limits of its own, the agent gets the policy `Chat` and the limits of the context. ``entity``: id of
        the subject of the conversation. ``others``: your own contexts to which tools may shift, in addition to the built-in
        ones. ``models``: models by profile, in place of the agent's. A run that continues a shifted run starts in the context
        to which the earlier run shifted.
        """
        kept = [extension for extension in agent.extensions if extension.name != EXTENSION]
        return replace(agent, extensions=(*kept, self.extension(entity, others, models)))

    def extension(
        self, entity: str = "", others: Iterable[ContextSpec] = (), models: Mapping[str, str | Model] | None = None
    ) -> Extension:
        """Return the context's additions to an agent; parameters as for `apply`."""
        if not isinstance(entity, str):
            raise SettingsError(f"entity={entity!r} is not a string", "Use the id of an entity: entity=str(ID)")
        for profile in models or {}:
            if profile not in PROFILES:
                raise SettingsError(f"models has no profile {profile!r}", suggest_names(str(profile), PROFILES))
        brought = builtin_contexts()
        own = KnownContexts((*others, self)).without(brought)
        return TurnContext(self, encodable(entity.strip()), brought.with_others(own), models or {}, own).extension


@cache
def builtin_contexts() -> KnownContexts:
    """Return the built-in contexts."""
    text = files("agentnb.chat").joinpath("context_types.yaml").read_text(encoding="utf-8")
    problems = Problems()
    node = read_yaml(text, problems)
    items = node.items if isinstance(node, ListNode) else ()
    all_settings = [_settings(Fields(item, "context", problems), "") for item in items if isinstance(item, MappingNode)]
    problems.check()
    return KnownContexts([ContextType(**settings) for settings in all_settings])
