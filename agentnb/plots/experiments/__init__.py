"""Figures of experiments: differences, flips, pass^k, ledgers, and cost against success."""
