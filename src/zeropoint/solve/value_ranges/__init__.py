"""The ranges of values: what follows from other ranges, and what their readers need."""
