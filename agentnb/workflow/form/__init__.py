"""The form of workflow files: their YAML source, the classes of steps, the readers of each."""
