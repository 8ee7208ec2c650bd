"""Experiments as HTML and as text: designs, pilots, progress, results and comparisons."""
