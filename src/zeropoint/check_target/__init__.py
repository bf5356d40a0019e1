"""Compare the results of the installed runtime with our prediction, for every row of a target's kernel table."""

from zeropoint.check_target.check import Finding, check_rows
from zeropoint.check_target.text import finding_page, finding_table

__all__ = ["Finding", "check_rows", "finding_page", "finding_table"]
