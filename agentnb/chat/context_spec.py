"""Context types as data (a conversation's subject, and the settings that follow from it), and their lookup by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

from agentnb.advice import AnyAdvice
from agentnb.agent.derived_settings import NO_LIMIT
from agentnb.core.messages import encodable
from agentnb.errors import SettingsError, suggest_names, suggest_similar
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.policies.run_limits import LIMIT_SETTINGS, LIMITS, ON_LIMIT

PROFILES = ("speed", "balanced", "quality")
"""Model profiles of contexts; the person assigns a model to each."""
FIRST, CONFIRM = TOOLS = ("first", "confirm")
PLAN_RULE = ("tools", "required", "most", "hint")
"""Keys of a plan rule."""
Load: TypeAlias = Callable[[str], str]
"""Returns text about the entity with this id."""
_BLANK_LINES = re.compile(r"\A(?:[^\S\n]*\n)+")
"""Blank lines at the start of text; the first line that is not blank keeps its indentation, for tables."""
_NAME = re.compile(r"[\w.-]{1,64}")
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """The settings of a `ContextType`, as documented there. Raises `SettingsError` if one is invalid."""

    name: str
    intent: str = ""
    behaviours: Iterable[str] = ()
    profile: str = "balanced"
    tools: Mapping[str, Iterable[str]] = field(default_factory=dict)
    plan_rules: Iterable[Mapping[str, Any]] = ()
    limits: Mapping[str, Any] = field(default_factory=dict)
    aliases: Iterable[str] = ()
    load: Load | None = None
    first: tuple[Rule, ...] = field(init=False, repr=False, compare=False)
    """Tools to put first."""
    confirms: tuple[Rule, ...] = field(init=False, repr=False, compare=False)
    """Calls that the person confirms every time."""

    def __post_init__(self) -> None:
        for name, value in (
            ("behaviours", self._texts("behaviours", self.behaviours)),
            ("aliases", self._texts("aliases", self.aliases)),
            ("tools", self._check_tools()),
            ("plan_rules", self._check_plan_rules()),
            ("limits", self._check_limits()),
        ):
            object.__setattr__(self, name, value)
        for name, key in (("first", FIRST), ("confirms", CONFIRM)):
            object.__setattr__(self, name, tuple([Rule.read(text, "ask") for text in self.tools.get(key, ())]))
        for word in (self.name, *self.aliases):
            if not isinstance(word, str) or not _NAME.fullmatch(word):
                raise SettingsError(f"{word!r} is not a valid context name", "Use only letters, digits, _, - and .")
        if not isinstance(self.intent, str):
            raise self._wrong(f"intent={self.intent!r} is not a string")
        if self.profile not in PROFILES:
            raise self._wrong(f"unknown profile {self.profile!r}", suggest_names(str(self.profile), PROFILES))
        if self.load is not None and not callable(self.load):
            raise self._wrong(
                f"load={self.load!r} is not a function", "load= takes the id of an entity and returns text about it"
            )

    @property
    def data(self) -> dict[str, Any]:
        """The context as plain data, without the function that loads text."""
        return {
            "name": self.name,
            "aliases": list(self.aliases),
            "intent": self.intent,
            "behaviours": list(self.behaviours),
            "profile": self.profile,
            "tools": {key: list(texts) for key, texts in self.tools.items()},
            "plan_rules": [dict(rule) for rule in self.plan_rules],
            "limits": dict(self.limits),
        }

    def load_text(self, entity: str) -> str:
        """Return the text about an entity; empty if there is no ``load`` function. Raises `SettingsError` if loading fails."""
        if self.load is None or not entity:
            return ""
        try:
            text: Any = self.load(entity)
        except Exception as error:
            problem = f"the text about {entity} cannot be loaded: {type(error).__name__}: {error}"
            raise self._wrong(problem, "Fix the function load= of the context, or omit the entity") from error
        if text is not None and not isinstance(text, str):
            raise self._wrong(
                f"load({entity!r}) returned {type(text).__name__}, not a string", "Return a string, or None for no text"
            )
        return _BLANK_LINES.sub("", encodable(text or "")).rstrip()

    def _wrong(self, problem: str, hint: Any = "") -> SettingsError:
        return SettingsError(f"The context {self.name}: {problem}", hint)

    def _texts(self, key: str, value: Any) -> tuple[str, ...]:
        items = (value,) if isinstance(value, str) else value
        is_list = isinstance(items, Iterable) and not isinstance(items, Mapping)
        texts = tuple(items) if is_list else ()
        if not is_list or not all(isinstance(text, str) and text.strip() for text in texts):
            raise self._wrong(f"{key}={value!r} is not a list of strings")
        return texts

    def _check_tools(self) -> Mapping[str, tuple[str, ...]]:
        if not isinstance(self.tools, Mapping):
            raise self._wrong(f"tools={self.tools!r} is not a mapping", 'Write tools={"first": [...], "confirm": [...]}')
        tools: dict[str, tuple[str, ...]] = {}
        for key, value in self.tools.items():
            if key not in TOOLS:
                raise self._wrong(f"tools has no key {key!r}", suggest_names(str(key), TOOLS))
            tools[key] = self._texts(f"tools: {key}", value)
            for text in tools[key]:
                rule = Rule.read(text, "ask")
                if key == FIRST and rule.pattern:
                    raise self._wrong(f"{text!r} contains brackets", "Use tool names or patterns of names")
        return MappingProxyType(tools)

    def _check_plan_rules(self) -> tuple[Mapping[str, Any], ...]:
        rules: list[Mapping[str, Any]] = []
        if not isinstance(self.plan_rules, Iterable):
            raise self._wrong(f"plan_rules={self.plan_rules!r} is not a list", 'Write plan_rules=[{"tools": ["f"]}]')
        for rule in self.plan_rules:
            if not isinstance(rule, Mapping) or not ({"tools", "hint"} & rule.keys()):
                raise self._wrong(f"{rule!r} is not a plan rule", 'Write {"tools": ["f"], "required": True}')
            if unknown := [key for key in rule if key not in PLAN_RULE]:
                raise self._wrong(f"a plan rule has no key {unknown[0]!r}", suggest_names(str(unknown[0]), PLAN_RULE))
            if not isinstance(rule.get("hint", ""), str):
                raise self._wrong(f"hint={rule['hint']!r} of a plan rule is not a string")
            most, is_required = rule.get("most"), rule.get("required", False)
            if not isinstance(is_required, bool) or not (most is None or (type(most) is int and most > 0)):
                raise self._wrong(f"{dict(rule)!r} is not a plan rule", "required must be true or false, most a number above 0")
            named = {"tools": self._texts("tools of a plan rule", rule["tools"])} if "tools" in rule else {}
            rules.append(MappingProxyType({**rule, **named}))
        return tuple(rules)

    def _check_limits(self) -> Mapping[str, Any]:
        if not isinstance(self.limits, Mapping):
            raise self._wrong(f"limits={self.limits!r} is not a mapping", 'Write limits={"max_seconds": 90}')
        for name, value in self.limits.items():
            if name not in LIMIT_SETTINGS:
                raise self._wrong(f"there is no limit {name!r}", suggest_names(str(name), LIMIT_SETTINGS))
            if name == "on_limit" and value not in ON_LIMIT:
                raise self._wrong(f"on_limit={value!r} is unknown", suggest_names(str(value), ON_LIMIT))
            if name != "on_limit":
                LIMITS[name].check(value)
        return MappingProxyType(dict(self.limits))

    @property
    def agent_limits(self) -> dict[str, Any]:
        """The limits, as settings of an agent."""
        return {name: NO_LIMIT if value is None else value for name, value in self.limits.items()}


class KnownContexts:
    """Contexts by name and alias; if several have the same name, the last one wins."""

    def __init__(self, contexts: Iterable[ContextSpec] = ()) -> None:
        all_contexts = tuple(contexts)
        self._by_name = {context.name: context for context in all_contexts}
        # A replacement keeps the aliases of the original: a custom `global` is still reachable as `general`.
        self._names = {word: context.name for context in all_contexts for word in context.aliases}
        self._names |= {name: name for name in self._by_name}
        self._folded = {word.casefold(): name for word, name in self._names.items()}

    def __iter__(self) -> Iterator[ContextSpec]:
        return iter(self._by_name.values())

    def with_others(self, others: Iterable[ContextSpec]) -> KnownContexts:
        """Return these contexts and others; the others replace contexts with the same names."""
        return KnownContexts((*self._by_name.values(), *others))

    def without(self, others: KnownContexts) -> tuple[ContextSpec, ...]:
        """Return the contexts that the others lack, or have in a different form."""
        return tuple([context for context in self if others.get(context.name) != context])

    def canonical(self, word: str) -> str:
        """Return the name of the context with this name or alias, ignoring case; return unknown words unchanged."""
        return self._names.get(word) or self._folded.get(word.casefold(), word)

    def get(self, word: str) -> ContextSpec | None:
        """Return the context with this name or alias, or None."""
        return self._by_name.get(self.canonical(word))

    def near(self, word: str) -> tuple[AnyAdvice, ...]:
        """Return advice if the word is similar to a name or an alias."""
        return suggest_similar(word, self._names)
