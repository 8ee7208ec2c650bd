"""Figures about experiments: differences, flips, pass^k, ledgers, and cost against success."""
