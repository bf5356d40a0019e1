"""The parts of a value whose ranges differ: channels, and operands of concatenations."""
