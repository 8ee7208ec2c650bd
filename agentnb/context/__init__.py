"""Preparation of requests to the model: history, truncation, compaction."""
