"""Task files: the second form of workflows, whose tasks call actions and share variables. The same engine runs them.

The notation ``${...}`` works only in task files, and ``{{ ... }}`` only in workflows and templates. Elsewhere, each is plain
text.
"""
