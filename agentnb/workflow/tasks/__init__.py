"""Task files: the other form of workflows, in which tasks call actions and share variables. The same engine runs them.

One rule for references: ``${...}`` is read in task files only, and ``{{ ... }}`` in workflows and templates only. In a task
file two braces are text, and in a workflow a dollar with a bracket is.
"""
