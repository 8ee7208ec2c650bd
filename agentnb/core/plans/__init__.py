"""The plans of a run with the progress of their steps, folded from its log."""
