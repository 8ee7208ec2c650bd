"""The context of one turn, as an extension of the agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import msgspec

from agentnb.agent.extension import Extension, logged_extensions
from agentnb.chat.context_spec import CONFIRM, ContextSpec, KnownContexts
from agentnb.chat.defaults import MAX_CHARACTERS
from agentnb.chat.prompts import fill, prompt
from agentnb.core.guidance import Guidance
from agentnb.detect.guidance_rules import CONTEXT_SHIFT
from agentnb.detect.run import Run
from agentnb.models.model import Model
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.policies.policy_sets import Chat

_TAG = re.compile(r"<(\s*/?\s*entity)", re.IGNORECASE)


def _fill_prompt(name: str, context: ContextSpec, entity: str, first: str = "") -> str:
    subject = f"{context.name}, {msgspec.json.encode(entity).decode()}" if entity else context.name
    confirmed = ", ".join(context.tools.get(CONFIRM, ()))
    return _text(name, subject, context.intent.strip(), tuple(context.behaviours), confirmed, first)


@lru_cache(maxsize=64)
def _text(name: str, about: str, intent: str, behaviours: tuple[str, ...], confirmed: str, first: str) -> str:
    values = {
        "about": about,
        "intent": intent,
        "behaviours": "\n".join(f"- {line}" for line in behaviours),
        "confirm": f"The person is asked before each of these calls: {confirmed}." if confirmed else "",
        "first": first,
    }
    parts = [fill(part, values) for part in prompt(name).split("\n\n")]
    return "\n\n".join(part for part in parts if part.strip())


EXTENSION = "context"
"""Name of a context's extension."""
PROFILE, LOADED = "profile", "entity_loaded"
"""Settings of a run: the profile of its context, and whether text about its entity was loaded."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """A context type, the entity of the conversation, and the contexts to which tools may shift."""

    type: ContextSpec
    entity: str
    known: KnownContexts
    models: Mapping[str, str | Model] = field(default_factory=dict)
    """Models by profile."""
    own: tuple[ContextSpec, ...] = ()
    """Known contexts that are not built-in."""
    applied: tuple[str, str] | None = None
    """Name and entity of the context that was applied, if the conversation has shifted since."""

    @property
    def name(self) -> str:
        """Name of the context."""
        return self.type.name

    @property
    def profile(self) -> str:
        """Profile of the context's model."""
        return self.type.profile

    @property
    def as_logged(self) -> dict[str, Any]:
        """Settings for the log of a run."""
        return {PROFILE: self.profile, **({LOADED: True} if self.loads else {})}

    @property
    def loads(self) -> bool:
        """True if a custom function loads the text about the entity."""
        return self.type.load is not None and bool(self.entity)

    @property
    def first(self) -> tuple[Rule, ...]:
        """Tools to put first."""
        return self.type.first

    def prompt(self, tools: Sequence[str]) -> str:
        """Return the section of the system prompt. ``tools``: the tools put first."""
        text, names = self.type.load_text(self.entity), ", ".join(tools)
        first = f"Use these tools first where they fit: {names}." if names else ""
        section = _fill_prompt("context", self.type, self.entity, first)
        if not text:
            return section
        shown = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n[cut: {len(text):,} characters in all]"
        data = _TAG.sub(r"&lt;\1", shown)
        return f"{section}\n\n{fill(prompt('entity'), {'text': data})}"

    def confirms(self, contexts: Sequence[str]) -> Iterable[Rule]:
        """Return the calls that the person confirms every time in any of these contexts."""
        return [rule for name in contexts if (context := self.known.get(name)) is not None for rule in context.confirms]

    def canonical(self, name: str) -> str:
        """Return the name of the context with this name or alias; return unknown words unchanged."""
        return self.known.canonical(name)

    def remind(self, run: Run) -> Guidance | None:
        """Return a reminder of the shift for every later round, or None if there was no shift. Used as a guide."""
        if (run.context_type, run.entity) == ("".join(run.contexts[:1]), run.first_entity):
            return None
        context = self.known.get(run.context_type)
        text = "" if context is None else _fill_prompt("context_shift", context, run.entity)
        return Guidance(EXTENSION, CONTEXT_SHIFT, text, trigger=f"shifted to {run.context_type}") if text else None

    def after(self, before: Run) -> TurnContext:
        """Return the context for a run that continues ``before``: the one to which ``before`` shifted, if it started from this
        one.
        """
        logged = logged_settings(before) or {}
        is_same = (logged.get("applied"), logged.get("applied_entity")) == self._applied
        context = self.known.get(before.context_type) if is_same else None
        if context is None or (context.name, before.entity) == (self.name, self.entity):
            return self
        return replace(self, type=context, entity=before.entity, applied=self._applied)

    @property
    def extension(self) -> Extension:
        """The context as an extension of an agent."""
        model = self.models.get(self.profile)
        own = [context.data for context in self.own]
        return Extension(
            name=EXTENSION,
            settings={
                **dict(zip(("applied", "applied_entity"), self._applied, strict=True)),
                **({"own": own} if own else {}),
            },
            agent_settings={"policy": Chat(), **self.type.agent_limits, **({} if model is None else {"model": model})},
            guides=(self.remind,),
            context=self,
            continuing=lambda before: self.after(before).extension,
        )

    @property
    def _applied(self) -> tuple[str, str]:
        return self.applied or (self.name, self.entity)


def logged_settings(run: Run) -> dict[str, Any] | None:
    """Return the logged settings of a run's context, or None if it has none."""
    extension = logged_extensions(run).get(EXTENSION)
    return None if extension is None else extension.get("settings", {})
