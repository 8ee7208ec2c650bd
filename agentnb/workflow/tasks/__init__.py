"""Task files: the second form of workflows. Their tasks call actions and share variables; the same engine runs them.

Of the two reference notations, ``${...}`` works only in task files and ``{{ ... }}`` only in workflows and templates.
Elsewhere, each is plain text.
"""
