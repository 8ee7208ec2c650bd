"""Tool calls: judged, run, stopped, and their reports."""
