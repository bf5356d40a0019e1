"""`python -m zeropoint`."""

from zeropoint.cli import main

main(prog_name="zeropoint")
