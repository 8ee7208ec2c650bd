"""Recorded runs beside each other: what two runs did alike, and where they part."""
