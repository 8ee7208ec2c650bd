"""Views of several runs: lists, the trace browser, two runs side by side."""
