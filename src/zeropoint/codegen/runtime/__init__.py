"""In-process execution of machine code: memory, threads, guarded runs, profiling."""
