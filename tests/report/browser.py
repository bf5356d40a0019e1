"""Debian's Chromium, driven by selenium: a page opened from a file, and what its console says."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
SWITCHES = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="found no chromium and chromedriver: apt-get install chromium-driver"
)


@contextmanager
def browser(width: int, height: int) -> Iterator[Any]:
    """A driver with a window of that size and a profile of its own."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for switch in (*SWITCHES, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(switch)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            yield driver
        finally:
            driver.quit()


def resize(driver: Any, width: int, height: int) -> None:
    """Show the page as on a screen of that size; below 600 pixels, as on a phone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def prefer(driver: Any, scheme: str) -> None:
    """What the system prefers: light or dark."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def opened(driver: Any, path: Path) -> None:
    """Open a file."""
    driver.get(path.as_uri())
