"""Variants of an experiment: guidance sets, policies, agent settings, agents and workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from agentnb.acp.model_network import address_of
from agentnb.agent.agent import Agent
from agentnb.agent.agent_settings import AgentSettings
from agentnb.agent.extension import without_model
from agentnb.errors import AgentnbError, SettingsError, UnknownModel, suggest_names
from agentnb.experiments.planning.content_hash import content_hash, content_of_agent, content_of_workflow, source_of
from agentnb.experiments.planning.run_folders import HOME, HOSTS, folder_content, runs_external_agent
from agentnb.guidance.draws import RandomGuidance
from agentnb.guidance.sets import GuidanceSet, find_set
from agentnb.models.model import Model
from agentnb.models.seeds import takes_seed, with_seed
from agentnb.policies.permissions.permission_rules import NO_RULES, RuleList
from agentnb.policies.permissions.rule_words import known_rules
from agentnb.policies.run_limits import LIMITS
from agentnb.runtime.host.host import host_here
from agentnb.tools.builtin.builtin_names import tools_of
from agentnb.workflow.workflow import Workflow

OWN_MODEL = ""
"""Placeholder for the name of a model: each variant's agent has its own."""
PROMPT = "prompt"
"""Variant setting that, like `HOME` and `HOSTS`, is not an agent setting: a template around the prompt of each task."""
VARIANT_SETTINGS = (*[field.name for field in fields(AgentSettings) if field.init], PROMPT, HOME, HOSTS)
"""Names of all settings of a variant."""
FORKED = ("model", "guidance", "policy", "tools", "detect", "gates", *LIMITS)
"""Settings that can be changed in a fork of a recorded run."""


@dataclass(frozen=True, slots=True)
class Variant:
    """An arm of an experiment."""

    name: str
    work: Agent | Workflow
    """The agent or workflow that runs the variant's tasks."""
    template: str | None = None
    """Text around the prompt of each task, which contains ``{{ prompt }}``."""
    changes: Mapping[str, Any] | None = None
    """Settings that the variant changes; in forks of recorded runs, all others stay as recorded."""
    content: str = ""
    """Hash of its behaviour, excluding the source of its tools."""
    tools: str = ""
    """Hash of the source of its tools."""
    home: str = ""
    """Folder with an external agent's initial settings, if any; otherwise empty."""
    hosts: tuple[str, ...] = ()
    """Addresses, as ``HOST:PORT``, that an external agent in the sandbox may reach instead of those in its entry."""

    @property
    def model(self) -> str | Model | None:
        """The variant's own model, or None for a workflow."""
        return self.work.used_model if isinstance(self.work, Agent) else None

    @property
    def budget(self) -> float | None:
        """US dollars per run, or None if there is no budget."""
        return self.work.limits.budget if isinstance(self.work, Agent) else self.work.spec.limits.get("budget")

    def agent(self, model: str | Model | None, seed: int) -> Agent:
        """Return the variant's agent with this model (by default its own), seeded if possible."""
        assert isinstance(self.work, Agent), "a workflow has its own agents"
        chosen = with_seed(self.work.used_model if model is None else model, seed)
        words = self.work.guidance
        agent = replace(self.work, guidance=words.with_seed(seed)) if isinstance(words, RandomGuidance) else self.work
        if chosen is agent.used_model or agent.acp:
            return agent
        return replace(agent, model=chosen, extensions=without_model(agent.extensions))


def read_variants(definitions: Any, base: Any, models: Iterable[str | Model], problems: list[str]) -> tuple[Variant, ...]:
    """Return the variants by name. ``base``: the agent (or its settings) that variants change; problems are appended."""
    named = variants_by_name(definitions, problems)
    if base is not None and not isinstance(base, Agent | Mapping):
        problems.append(f"agent={base!r} is neither an Agent nor a mapping of its settings")
        return ()
    variants: list[Variant] = []
    first_model = next(iter(models), None)
    try:
        base, rules = _split_rules(base)
        for name, value in named.items():
            try:
                variants.append(_variant(str(name), value, base, first_model))
            except UnknownModel as error:
                problems.append(str(error))  # concerns the experiment's models, and so every variant
            except (AgentnbError, TypeError) as error:
                problems.append(f"Variant {name}: {error}")
        if not problems:
            known_rules(rules, [variant.work for variant in variants])
    except SettingsError as error:
        problems.append(str(error))
    if not named and not problems:
        problems.append('The experiment has no variants. Name some: {"without": "off", "with": "matrix"}')
    return tuple(variants)


def equal_variants(variants: Iterable[Variant]) -> list[tuple[str, str]]:
    """Return the pairs of variants (by name) that have equal content, the earlier one first."""
    first: dict[tuple[str, str], str] = {}
    return [
        (earlier, variant.name)
        for variant in variants
        if (earlier := first.setdefault((variant.content, variant.tools), variant.name)) != variant.name
    ]


def forked_changes(variant: Variant) -> list[str]:
    """Return the settings that a variant changes although they cannot be changed in a fork of a recorded run."""
    changes = [name for name in variant.changes or (["acp"] if runs_external_agent(variant.work) else []) if name not in FORKED]
    return [*changes, *(["prompt"] if variant.template is not None else [])]


def unseeded_models(variants: Iterable[Variant], models: Iterable[str | Model]) -> tuple[str, ...]:
    """Return the names of models that take no seed, without repetition, excluding those of a workflow's agents."""
    used = [*models] or [variant.model for variant in variants if variant.model is not None]
    return tuple(dict.fromkeys(name_of(model) for model in used if not takes_seed(model)))


def read_models(models: Iterable[str | Model] | str | Model | None) -> tuple[str | Model, ...]:
    """Return the models as a tuple; empty for None, which means that each variant has its own."""
    if models is None:
        return ()
    return (models,) if isinstance(models, str) or not isinstance(models, Iterable) else tuple(models)


def model_names_of(models: Iterable[str | Model]) -> tuple[str, ...]:
    """Return the names of the models for cells; if there are no models, only `OWN_MODEL`."""
    return tuple(map(name_of, models)) or (OWN_MODEL,)


def name_of(model: str | Model) -> str:
    """Return ``provider:model``."""
    return str(model) if isinstance(model, str) else model.name


def is_persona(model: str | Model) -> bool:
    """True for agentnb's own simulated models, whose runs say nothing about language models."""
    return name_of(model).startswith("simulated:")


def is_policy(value: Any) -> bool:
    """True if a value has the form of a policy set."""
    return callable(getattr(value, "rules", None)) and hasattr(value, "name")


def variants_by_name(definitions: Any, problems: list[str]) -> Mapping[str, Any]:
    """Return the variants by name. The items of a list serve as their own names. Problems are appended."""
    if isinstance(definitions, Mapping):
        return definitions
    if isinstance(definitions, str) or not isinstance(definitions, Iterable):
        problems.append(f'variants={definitions!r} is not a mapping. Give names: {{"without": "off", "with": "matrix"}}')
        return {}
    return {(value if isinstance(value, str) else getattr(value, "name", str(value))): value for value in definitions}


def _split_rules(base: Any) -> tuple[Any, RuleList]:
    """Separate the rules from an agent or its settings. Rules are not checked against variants, whose tools may differ."""
    if isinstance(base, Agent):
        return (replace(base, permissions=base.rule_list.as_checked) if base.rule_list else base), NO_RULES
    rules = RuleList.of((base or {}).get("permissions"))
    return ({**base, "permissions": rules.as_checked} if rules else base), rules


def _variant(name: str, definition: Any, base: Any, model: str | Model | None) -> Variant:
    if isinstance(definition, Workflow):
        texts = [*(definition.tool_names), *[source_of(tool) for value in definition.tools for tool in tools_of(value)]]
        return Variant(name, definition, content=content_of_workflow(definition), tools=content_hash(texts))
    changes, template, home, hosts = _changes(definition)
    if isinstance(definition, Agent):
        agent = definition
    elif isinstance(base, Agent):
        kept = {"extensions": without_model(base.extensions)} if "model" in changes else {}
        agent = replace(base, **{**kept, **changes})
    else:
        settings = {**dict(base or {}), **changes}
        if settings.get("model") is None and not settings.get("acp"):
            if model is None:
                raise SettingsError('no model is given. Give one: models=["provider:name"], or agent={"model": ...}')
            settings["model"] = model
        _check_names(settings)
        agent = Agent(**settings)
    if agent.acp and model is not None:
        advice = (
            f'Name the model of each variant: {{"acp": "{agent.acp.partition(":")[0]}:MODEL"}}, {{"model": "provider:name"}}'
        )
        raise SettingsError(f"models= does not apply to {agent.model_name}, which has its own model", advice)
    if home and not agent.acp:
        raise SettingsError(f"{HOME}= is an external agent's settings folder", "Leave it out, or also give acp=")
    if hosts and not agent.acp:
        raise SettingsError(f"{HOSTS}= are the hosts that an external agent may reach", "Leave it out, or also give acp=")
    sources = [(tool.spec.name, source_of(tool)) for tool in agent.toolbox]
    own = [agent.mode, folder_content(home) if home else "", *hosts] if agent.acp else []
    content = content_hash(content_of_agent(agent), template, *own)
    return Variant(name, agent, template, changes, content, content_hash(sources), home, hosts)


def _changes(definition: Any) -> tuple[dict[str, Any], str | None, str, tuple[str, ...]]:
    """Return the agent settings that a variant changes, its template, the folder of initial settings, and the hosts."""
    if isinstance(definition, Agent):
        return {}, None, "", ()
    if isinstance(definition, str | GuidanceSet):
        return {"guidance": find_set(definition, host_here().sets)}, None, "", ()
    if isinstance(definition, Mapping):
        settings = {str(key): value for key, value in definition.items()}
        template, home = settings.pop(PROMPT, None), str(settings.pop(HOME, ""))
        hosts = _read_hosts(settings.pop(HOSTS)) if HOSTS in settings else ()
        _check_names(settings)
        if isinstance(name := settings.get("guidance"), str):
            settings["guidance"] = find_set(name, host_here().sets)
        if settings.get("acp"):  # replaces the model of the other variants
            settings = {"model": "", **settings}
        return settings, template, home, hosts
    if is_policy(definition):
        return {"policy": definition}, None, "", ()
    raise SettingsError(f"{definition!r} is not a guidance set, policy, mapping of settings, Agent or Workflow")


def _read_hosts(value: Any) -> tuple[str, ...]:
    hosts = [value] if isinstance(value, str) else value
    if not (isinstance(hosts, list | tuple) and hosts and all(isinstance(host, str) for host in hosts)):
        raise SettingsError(f"{HOSTS}= is neither a host nor a list of hosts", "Name at least one, such as api.example.org")
    return tuple(map(address_of, hosts))


def _check_names(settings: Mapping[str, Any]) -> None:
    for key in settings:
        if key not in VARIANT_SETTINGS:
            raise SettingsError(f"an agent has no setting {key!r}", suggest_names(key, VARIANT_SETTINGS))
