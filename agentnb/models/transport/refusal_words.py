"""The words by which servers say that a conversation is too long, or that a quota is used up for hours: a table with sources.

Servers share status and error names between such refusals and others, so nothing but their words tells them apart.
"""

from __future__ import annotations

import re
from typing import NamedTuple

OF_OVERFLOWS = (None, 400, 413, 422, 500)
"""HTTP status of an overflow: none inside a stream, 413 and 422 at some servers, 500 at local ones and gateways."""
OF_QUOTAS = (None, 400, 403, 429, 503)
"""HTTP status of a quota that is used up."""
PI = "badlogic/pi-mono/blob/main/packages/ai/src/utils/overflow.ts"


class Words(NamedTuple):
    """The words of one server."""

    server: str
    pattern: str
    source: str
    """Place that quotes or documents them, on GitHub where no other host is named."""
    statuses: tuple[int | None, ...] = OF_OVERFLOWS


OVERFLOWS = (
    Words("anthropic", "prompt is too long", "anthropics/claude-code/issues/12186"),
    Words("anthropic", "exceed context limit", "docker/docker-agent/issues/569"),
    Words("openai", "maximum context length", "xtekky/gpt4free/issues/137"),
    Words("openai", "exceeds the context window", PI),
    Words("openai", "request too large for .{1,300}tokens per min", "continuedev/continue/issues/10218", (*OF_OVERFLOWS, 429)),
    Words("openrouter", "endpoint's maximum context", "earendil-works/pi/issues/6378"),
    Words("deepseek", r"context length is \d+ tokens", "bytedance/deer-flow/issues/66"),
    Words("gemini", "input token count .{0,40}exceeds the maximum", "google-gemini/gemini-cli/issues/6678"),
    Words("groq", "reduce the length of (the |your )?(messages|prompt|input)", "OpenHands/OpenHands/issues/1902"),
    Words("cerebras", r"current length is \d+ while limit is", "cline/cline/issues/5140"),
    Words("qwen", "range of input length should be", "QwenLM/qwen-code/issues/98"),
    Words("bedrock", "input is too long", "aws-samples/bedrock-chat/issues/95"),
    Words("bedrock", r"expected maxLength: \d+, actual", "ryanadoty/Amazon-Bedrock-Amazon-RDS-POC/issues/9"),
    Words("tgi", "inputs`? tokens \\+ `?max_new_tokens`? must be", "huggingface/text-generation-inference/issues/628"),
    Words("tgi", r"inputs`? must have less than \d+ tokens", "huggingface/text-generation-inference/issues/937"),
    Words("vllm", "longer than the maximum model length", "xorbitsai/inference/issues/3785"),
    Words("vllm", r"prompt \(\d+ tokens\) is too long", "vllm-project/vllm/issues/525"),
    Words("sglang", r"exceeds the maximum (allowed )?(input )?length", "sgl-project/sglang/issues/4048"),
    Words("sglang", "longer than the model's context length", "QwenLM/Qwen3/issues/1321"),
    Words("llamacpp", "exceeds? the available context", "ggml-org/llama.cpp/issues/17284"),
    Words("lmstudio", "greater than the context length", "Gitlawb/openclaude/issues/353"),
    Words("lmstudio", "tokens when context the overflows", "lmstudio-ai/lmstudio-bug-tracker/issues/546"),
    Words("ollama", "input length exceeds the context length", "nano-step/nano-brain/issues/208"),
    Words("ollama", "prompt too long; exceeded", "dyad-sh/dyad/issues/3498"),
    Words("mistral", r"too large for model with \d+ maximum", PI),
    Words("xai", r"maximum prompt length is \d+", PI),
    Words("copilot", r"prompt token count of \d+ exceeds the limit", PI),
    Words("kimi", "exceeded model token limit", PI),
    Words("volcengine", "exceed max message tokens", "sipeed/picoclaw/issues/183"),
    Words("cohere", r"too many tokens\b(?! per |, please wait)", "cohere-ai/sandbox-topically/issues/4"),
    Words(
        "gateways",
        r"context[ _](length|limit|window|size)[ _](has been )?exceed|exceeds? .{0,60}context (length|limit|window|size)",
        PI,
    ),
)
QUOTAS = (
    Words("groq", r"\bper day\b|\((TPD|RPD)\)", "continuedev/continue/issues/10920", OF_QUOTAS),
    Words("kimi", r"\b(TPD|RPD) rate limit", "MoonshotAI/kimi-cli/issues/2318", OF_QUOTAS),
    Words("gemini", "PerDayPer", "google-gemini/gemini-cli/issues/6962", OF_QUOTAS),
    Words("openrouter", "models-per-day", "cline/cline/issues/5301", OF_QUOTAS),
    Words("github", r"per 86400 ?s\b", "docs.github.com/en/github-models/prototyping-with-ai-models#rate-limits", OF_QUOTAS),
    Words("gateways", r"\b(daily|monthly)\b.{0,40}\bquota", "google-gemini/gemini-cli/issues/15576", OF_QUOTAS),
)
"""Quotas that last a day or longer: to wait for them is no retry. Bedrock has Groq's words: Ivy-Tendril/issues/1756."""


def said_by(rows: tuple[Words, ...], status: int | None, message: str) -> bool:
    """Return whether an error of this status has the words of one of the rows."""
    return any(status in row.statuses and re.search(row.pattern, message, re.IGNORECASE) for row in rows)
