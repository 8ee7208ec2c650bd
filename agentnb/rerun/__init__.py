"""Recorded runs beside each other: what two runs did alike, and where they part.

Rooms below read recorded runs, and assess runs by their expectations, with this one.
"""

from agentnb.models.recorded import read_with
from agentnb.rerun.expect import expected_outcome
from agentnb.rerun.recordings import recordings_of
from agentnb.runtime.runs.assessing import assess_with

read_with(recordings_of)
assess_with(expected_outcome)
