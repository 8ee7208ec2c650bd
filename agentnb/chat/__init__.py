"""Contexts of conversations: policy, limits, model, confirmations and prompt of an agent, depending on the subject."""
