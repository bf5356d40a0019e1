"""`python -m zeropoint`."""

from zeropoint.cli import main

main()
