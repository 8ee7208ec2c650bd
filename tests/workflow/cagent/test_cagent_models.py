"""Names of models in cagent files become those of agentnb."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot

from agentnb.errors import UnknownModel, UrlNotAllowed, WorkflowProblems
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.registry import check_destinations, check_model
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.workflow_spec import WorkflowSpec

MODELS = """
providers:
  gateway: {base_url: "https://models.example.org/v1", token_key: GATEWAY_KEY}
  other: {api_type: openai_responses, base_url: "https://other.example.org/v1"}
models:
  plain: {provider: openai, model: gpt-x, max_tokens: 900, temperature: 0.5, parallel_tool_calls: false}
  hub: {provider: openai, model: gpt-x, base_url: "https://models.example.org/v1", token_key: HUB_TOKEN}
  thinks: {provider: openai, model: gpt-x, thinking_budget: minimal}
  counts: {provider: anthropic, model: claude-x, thinking_budget: 1024, max_tokens: 2000}
  of_gateway: {provider: gateway, model: big/one, temperature: 0}
  of_other: {provider: other, model: gpt-x}
"""
CASES = {
    "openai/gpt-x": "openai:gpt-x",
    "openai:gpt-x": "openai:gpt-x",
    "google/gemini-x": "gemini:gemini-x",
    "anthropic/claude-x": "anthropic:claude-x",
    "openrouter/some/model": "openrouter:some/model",
    "gateway/small": "compatible:small?url=https://models.example.org/v1&key=GATEWAY_KEY",
    "auto": None,
    "plain": "openai:gpt-x?max_tokens=900&temperature=0.5&parallel=false",
    "hub": "openai:gpt-x?url=https://models.example.org/v1&key=HUB_TOKEN",
    "thinks": "openai:gpt-x?effort=minimal",
    "counts": "anthropic:claude-x?max_tokens=2000&thinking=1024",
    "of_gateway": "compatible:big/one?url=https://models.example.org/v1&key=GATEWAY_KEY&temperature=0",
    "of_other": "openai-responses:gpt-x?url=https://other.example.org/v1",
}


def read(model: str, models: str = MODELS) -> WorkflowSpec:
    return read_workflow(f"{models}\nagents: {{root: {{model: '{model}'}}}}")


def test_model_names_include_their_options(subtests: pytest.Subtests) -> None:
    for written, name in CASES.items():
        with subtests.test(written):
            spec = read(written)
            assert (spec.agents["root"].model, spec.warnings) == (name, ())


def test_base_url_in_a_file_requires_permission() -> None:
    model = read("hub").agents["root"].model
    assert isinstance(model, FileModelName)
    with pytest.raises(UrlNotAllowed, match="HUB_TOKEN"):
        check_destinations([model])


def test_unsupported_model_options_are_warnings(snapshot: Snapshot) -> None:
    models = MODELS.replace("max_tokens: 900,", "top_p: 1, provider_opts: {a: 1}, thinking_budget: -1,")
    models = models.replace("thinking_budget: 1024,", "temperature: 0,")
    result = [str(warning) for name in ("plain", "counts", "plain, counts") for warning in read(name, models).warnings]
    assert "\n".join(result) == snapshot


def test_invalid_models_are_problems_with_their_line(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    cases = {
        "a provider that is not known": ("plain", "provider: openai, model: gpt-x, max", "provider: xyz-ai, model: gpt-x, max"),
        "one that is misspelt": ("opnai/gpt-x", "", ""),
        "no name": ("thinks", "provider: openai, model: gpt-x, thinking", "provider: openai, thinking"),
        "a number that is none": ("plain", "max_tokens: 900", "max_tokens: many"),
        "a key where its variable goes": ("hub", "token_key: HUB_TOKEN", "token_key: sk-ant-0123456789abcdef0123"),
        "a list": ("plain", "plain: {provider: openai,", "plain: [1]\n  rest: {provider: openai,"),
    }
    for name, (model, old, new) in cases.items():
        with subtests.test(name), pytest.raises(WorkflowProblems) as caught:
            read(model, MODELS.replace(old, new, 1) if old else MODELS)
        with subtests.test(name):
            assert "0123456789" not in str(caught.value)
            assert str(caught.value) == snapshot(name)


def test_unused_models_are_not_read() -> None:
    assert not read("thinks", MODELS.replace("plain: {provider: openai", "plain: {provider: xyz")).warnings


def test_slash_in_a_model_name_brings_a_colon_hint(snapshot: Snapshot) -> None:
    with pytest.raises(UnknownModel, check=snapshot.worded):
        check_model("google/gemini-x")
