"""The state of a kernel: the default store, live runs, defaults, and recovery of interrupted runs."""
