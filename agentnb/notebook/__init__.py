"""The notebook interface: magics, cards and the panel, which read runs and send commands, but make no decisions."""
