"""Joins running to watching: the default store, the live runs, the defaults of a kernel."""
