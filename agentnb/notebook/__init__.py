"""The notebook interface: magics, cards and the panel. They read runs and send commands, but make no decisions."""
