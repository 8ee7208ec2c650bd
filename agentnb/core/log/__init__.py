"""The log of a run: kinds of events, their wire form, earlier schemas, and the check of a whole log."""
