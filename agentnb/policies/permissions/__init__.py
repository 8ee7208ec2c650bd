"""Permissions: the rules by which a person lets tool calls run, has them asked about, or forbids them."""
