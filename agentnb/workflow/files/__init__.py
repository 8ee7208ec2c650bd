"""Workflow files read whole, with the files they run, their inputs and schemas."""
