"""zeropoint: an integer-only quantization compiler. A float network in, an exactly specified integer program out."""
