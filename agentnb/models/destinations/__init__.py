"""Destinations of requests whose model a file or a log names: what a person allowed, and the judgement."""
