"""Rows of kernel tables as test parameters, and the message where a runtime no longer confirms one.

`checked` names the version that confirmed a row; on another version the same tests run, and a failure says which row of
which target it is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import pytest

from zeropoint.check_target.models import row_id
from zeropoint.targets import KernelRow, port_text, relation_text, target


def row_text(row: KernelRow) -> str:
    """`add (const i8) -> act i8, free`."""
    ports = ", ".join(map(port_text, row.inputs))
    return f"{row.kernel} ({ports}) -> {port_text(row.output)}, {relation_text(row.relation)}"


def rows(name: str) -> list[object]:
    """Every row of a target, a test parameter each."""
    return [pytest.param(row, id=row_id(row)) for row in target(name).rows]


@contextmanager
def confirming(name: str, row: KernelRow, package: str, installed: str | None = None) -> Iterator[None]:
    """Inside, a runtime is asked about a row; what it does not confirm fails with the row and the versions.

    `installed` is the version of a package that is in another environment.
    """
    try:
        yield
    except Exception as error:
        found = f"{package} {installed or version(package)}"
        pytest.fail(
            f"target '{name}': {found} does not confirm the row '{row_text(row)}', checked by "
            f"'{row.checked or 'nobody'}': {type(error).__name__}: {error}"
        )
