"""The copy of a git directory for a sandboxed command, and the transfer of changes back to the original."""
