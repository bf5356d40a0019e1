"""LLVM: its text, its instruction sets as data, its library."""
