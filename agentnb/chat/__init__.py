"""Turns of a conversation: what it is about decides what an agent may do in it, and how careful it is."""
