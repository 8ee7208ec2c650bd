"""Conversation contexts: an agent's policy, limits, model, confirmations and prompt, depending on the subject."""
