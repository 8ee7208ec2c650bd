"""A search for better guidance: proposals tried on some tasks, the best judged once on others that the search never saw."""
