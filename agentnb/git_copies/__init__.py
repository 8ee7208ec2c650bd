"""The copy of a git directory for a sandboxed command, and the transfer of its changes to the original."""
