"""Several runs shown: lists, the trace browser, two runs side by side."""
