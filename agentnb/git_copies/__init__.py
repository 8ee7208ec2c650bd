"""The copy of a git directory on which a sandboxed command works, and what of it comes back to the original."""
