"""Reads workflow files together with nested files, inputs and schemas."""
