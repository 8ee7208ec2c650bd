"""Contexts of conversations: policy, limits, model, confirmations and prompt of an agent, by subject."""
