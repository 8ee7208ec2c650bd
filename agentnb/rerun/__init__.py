"""Recorded runs beside each other: what two runs did alike, and where they part. Recorded models read runs with this room."""

from agentnb.models.recorded import read_with
from agentnb.rerun.recordings import recordings_of

read_with(recordings_of)
