"""Translation of a cagent file's ``models:`` and ``providers:`` to model names."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

from agentnb.errors import suggest_similar
from agentnb.models.options import EFFORTS, PLAIN
from agentnb.models.registry import REMOTE
from agentnb.settings import SERVER_ALIASES
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.yaml_source import Node, ScalarNode

AUTO = "auto"
"""cagent's name for the run's model."""
CHAT = "openai_chatcompletions"
"""A provider's default wire protocol."""
NUMBERS = {"max_tokens": "max_tokens", "temperature": "temperature", "parallel_tool_calls": "parallel"}
ADDRESS = {"base_url": "url", "token_key": "key"}
"""Names of options, by cagent key."""
DESCRIBED = ("provider", "model", "thinking_budget", "api_type", *NUMBERS, *ADDRESS)


def is_with_slash(model: str) -> bool:
    """True if a model is written as ``provider/name``."""
    provider, slash, _ = model.partition("/")
    return bool(slash) and ":" not in provider


class Models:
    """Models of a file, by name."""

    def __init__(self, file: Fields) -> None:
        self._problems = file.problems
        self._models = file.fields("models", "models")
        self._providers = file.fields("providers", "providers")

    def name_for(self, agent: Fields) -> ScalarNode | None:
        """Return the model name of an agent, or None for the run's model. Reports models without a translation."""
        node = agent.node_at("model")
        text = (agent.text("model") or "").strip()
        if node is None or not text or text == AUTO:
            return None
        first, *others = [part.strip() for part in text.split(",")]
        if others:
            self._problems.warn(
                node.line, f"{agent.where}: model: agentnb does not alternate between models: only {first} is called"
            )
        if self._models is not None and first in self._models:
            return self._describe_model(first)
        if not is_with_slash(first):
            return ScalarNode(node.line, first, first)
        provider, _, name = first.partition("/")
        return self._name(Fields(agent.node, f"{agent.where}: model", self._problems), node, provider, name, {})

    def _describe_model(self, name: str) -> ScalarNode | None:
        assert self._models is not None
        entry = self._models.fields(name, f"models: {name}")
        if entry is None:
            return None
        provider, model = entry.text("provider"), entry.text("model")
        if not provider or not model:
            entry.add(entry.line, "a model needs a provider and a model", "Write {provider: NAME, model: NAME}")
            return None
        node = entry.node_at("provider")
        assert node is not None
        return self._name(entry, node, provider, model, dict(self._options(entry)))

    def _name(self, entry: Fields, at: Node, provider: str, model: str, options: dict[str, str]) -> ScalarNode | None:
        """Return ``server:model?options``."""
        own = self._providers.fields(provider, f"providers: {provider}") if self._providers is not None else None
        wire = provider if own is None else own.text("api_type") or CHAT
        server = SERVER_ALIASES.get(wire)
        if server is None:
            key = wire.upper().replace("-", "_")
            hint = f"Add its address: providers: {{{wire}: {{base_url: https://HOST/v1, token_key: {key}_API_KEY}}}}"
            entry.add(at.line, f'there is no provider "{wire}"', suggest_similar(wire, SERVER_ALIASES) or hint)
            return None
        options = {**(dict(self._options(own)) if own is not None else {}), **options}
        budget = options.pop("thinking_budget", "")
        if budget in EFFORTS:
            options["effort"] = budget
        elif budget:
            options["thinking" if REMOTE[server].thinks_by_budget and budget.isdecimal() else "thinking_budget"] = budget
        for option in [option for option in options if option not in REMOTE[server].options]:
            del options[option]
            self._problems.warn(entry.line, f"{entry.where}: {option} has no effect: models of {server} do not support it")
        text = f"{server}:{model}" + (f"?{urlencode(options, safe=PLAIN)}" if options else "")
        return ScalarNode(at.line, text, text)

    def _options(self, entry: Fields) -> Iterator[tuple[str, str]]:
        """Yield the options of a model or provider in the form used in model names; warn about unknown keys."""
        for key, setting in entry.node.entries.items():
            if key not in DESCRIBED:
                self._problems.warn(setting.line, f"{entry.where}: {key} has no effect")
            elif (text := entry.text(key)) and key not in ("provider", "model", "api_type"):
                yield NUMBERS.get(key) or ADDRESS.get(key) or key, text
