"""Where requests may go, when a file or a log names the model."""
