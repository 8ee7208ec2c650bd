"""Before-images: files as they were before the calls of a run changed them, kept beside its log for ``%agent undo``."""
