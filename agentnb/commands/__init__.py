"""Shell commands: how bash reads a command, and what the programs in it can do. Pure functions; permission rules are based on
them.
"""
