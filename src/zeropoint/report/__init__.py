"""Reports about programs, for people and tools."""
