"""The statistics of experiments: pure functions of task values, without I/O.

Two arms are compared within tasks: ``a`` and ``b`` hold the values of each task's repeats, with tasks in the same order.
"""
