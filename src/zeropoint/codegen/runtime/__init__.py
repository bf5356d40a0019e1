"""Programs as machine code in this process: memory, threads, guarded runs, timing."""
