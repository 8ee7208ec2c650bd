"""Permissions: a person's rules that allow tool calls, ask about them, or deny them."""
