"""The notebook interface: magics, cards and the panel. It reads runs and sends commands, but makes no decisions."""
