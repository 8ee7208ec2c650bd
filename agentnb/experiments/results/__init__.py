"""The results of an experiment: its folder, one row per cell, and comparisons of variants."""
