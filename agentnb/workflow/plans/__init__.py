"""Plans: what one is, how it is read and checked, and the two actions that make and run one."""
