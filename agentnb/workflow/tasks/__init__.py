"""Task files: the second form of workflows. Their tasks call actions and share variables; the same engine runs them.

Reference syntax: ``${...}`` works only in task files, ``{{ ... }}`` only in workflows and templates. Elsewhere each is
plain text.
"""
