"""A recorded run as code and as a test."""
