"""The report as one HTML file that needs no network."""

from zeropoint.report.page.html import page

__all__ = ["page"]
