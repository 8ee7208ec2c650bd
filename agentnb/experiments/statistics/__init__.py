"""Statistics of experiments: pure functions of the values of tasks, without I/O.

Two arms are compared within tasks: ``a`` and ``b`` hold, for each task in the same order, the values of its repeats.
"""
