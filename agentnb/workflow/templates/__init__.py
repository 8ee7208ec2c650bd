"""Templates in workflow files, and the outputs they refer to."""
