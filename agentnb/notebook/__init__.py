"""What a person sees and types in a notebook: magics, displays. It reads runs and puts commands; it decides nothing."""
