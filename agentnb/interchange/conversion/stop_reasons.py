"""Stop reasons of replies, in the providers' words, by their meaning for a run's end."""

from __future__ import annotations

NATURAL = frozenset({"stop", "end_turn", "stop_sequence", "completed", "complete", "eos", "eos_token", "STOP"})
"""The model finished."""
CUT = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "model_length", "MAX_TOKENS"})
"""A token limit cut the reply off."""
REFUSED = frozenset({"refusal", "content_filter", "SAFETY", "PROHIBITED_CONTENT", "RECITATION"})
"""The model, or a filter of its provider, declined to answer."""
