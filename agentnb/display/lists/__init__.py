"""Views of several runs: lists, the trace browser, and two runs side by side."""
