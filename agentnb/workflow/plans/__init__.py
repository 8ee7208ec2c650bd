"""Plans: their data, parsing and checks, and the two actions that make and run them."""
