"""Parts of a card as HTML: calls, rounds, todos, questions and results."""
