"""What a person wants to know about a program."""
