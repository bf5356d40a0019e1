"""LLVM: text generation, instruction sets as data, and the library."""
