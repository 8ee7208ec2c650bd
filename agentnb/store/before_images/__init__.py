"""Before-images: files as they were before the calls of a run changed them, kept alongside the run's log for ``%agent
undo``.
"""
