"""Words of what is shown: labels, states, commands. No HTML."""
