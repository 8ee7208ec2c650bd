"""Templates of workflow files and the outputs that they refer to."""
