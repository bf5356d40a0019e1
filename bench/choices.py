"""Choices in a command line: `--models a,b` of a table that knows them, `--threads 1,2` up to a number."""

import argparse
from collections.abc import Callable, Iterable


def chosen(known: Iterable[str]) -> Callable[[str], list[str]]:
    """A converter for argparse: comma-separated names, each one of `known`, in the order given, none twice."""
    names = list(known)

    def convert(text: str) -> list[str]:
        found = list(dict.fromkeys(text.split(",")))
        for name in found:
            if name not in names:
                raise argparse.ArgumentTypeError(f"found {name!r}, expected one of: {', '.join(names)}")
        return found

    return convert


def counts(most: int) -> Callable[[str], list[int]]:
    """A converter for argparse: comma-separated numbers from 1 to `most`, in the order given, none twice."""
    numbers = chosen(str(number) for number in range(1, most + 1))
    return lambda text: [int(number) for number in numbers(text)]
