"""Programs as objects and libraries for other processes."""
