"""The intermediate representation: dialects, weights, programs, text in and out. It holds no decisions."""
