"""The plans of a run and the progress of their steps, folded from its log."""
