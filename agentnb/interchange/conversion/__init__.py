"""From the items of a trace to the events of a run."""
