"""Shell tool and its sandbox."""
