"""The state of a kernel: the default store, the live runs, the defaults; and how an interrupted run is recovered."""
