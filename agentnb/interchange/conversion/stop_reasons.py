"""Providers' stop reasons for replies, grouped by what they mean for the end of a run."""

from __future__ import annotations

NATURAL = frozenset({"stop", "end_turn", "stop_sequence", "completed", "complete", "eos", "eos_token", "STOP"})
"""The model finished."""
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "model_length", "MAX_TOKENS"})
"""The reply was cut off by a token limit."""
REFUSED = frozenset({"refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "RECITATION"})
"""The model, or a filter of its provider, refused to answer."""
