"""Templates of workflow files, and the outputs to which they refer."""
