"""Plans: their data, parsing and checks, and the two actions that create and run them."""
