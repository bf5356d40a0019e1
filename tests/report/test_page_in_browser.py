"""The report in a real browser: it opens without errors or requests, and its graph, panel and table work together.

Set ZEROPOINT_SCREENSHOTS to a folder to keep the pictures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from digits import images, network, quantized_digits
from report.browser import browser, needs_browser, opened, prefer, resize
from zeropoint.measure import measured_report, stages_of
from zeropoint.report.page import page

pytestmark = needs_browser
WIDE, NARROW = (1440, 1000), (390, 844)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser with the report of the example network."""
    made = quantized_digits()
    source = stages_of(made, network(), images("test", 8), "test.npz")
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(measured_report(made.integer, "digits.mlir", source)))
    with browser(*WIDE) as driver:
        prefer(driver, "light")
        opened(driver, path)
        yield driver


@pytest.fixture(autouse=True)
def fresh(driver: Any) -> Iterator[None]:
    """The page as it opens; no test may leave an error in the console."""
    resize(driver, *WIDE)
    prefer(driver, "light")
    driver.refresh()
    yield
    assert driver.get_log("browser") == []


def texts(driver: Any, selector: str) -> list[str]:
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
    )


def column(driver: Any, index: int) -> list[str]:
    return [text.strip() for text in texts(driver, f"#table tbody td:nth-child({index})")]


def click(driver: Any, selector: str) -> None:
    driver.find_element("css selector", selector).click()


def node(driver: Any, name: str) -> Any:
    return driver.execute_script(
        "return [...document.querySelectorAll('.node')].find(e => e.getAttribute('aria-label').includes(arguments[0]))",
        name,
    )


def press(driver: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


def test_it_makes_no_request(driver: Any) -> None:
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_it_opens_with_figures_graph_and_the_worst_kernel(driver: Any) -> None:
    cards = texts(driver, ".card .label")
    assert cards[:3] == ["SQNR against float", "Top-1 agreement", "Float ops"]
    assert len(texts(driver, ".node")) == 15
    assert len(texts(driver, ".node.float")) == 1
    assert texts(driver, "#detail h2") == ["block.project.conv"]
    assert len(driver.find_elements("css selector", "#detail svg")) == 2
    assert texts(driver, "#floats li") == [
        "1 softmax (7 ops) stays float at 'softmax': target cpu has no kernel 'softmax'"
    ]


def test_a_click_on_a_box_opens_its_kernel(driver: Any) -> None:
    driver.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", node(driver, "block.add")
    )
    assert texts(driver, "#detail h2") == ["block.add"]
    assert [row.get_attribute("data-id") for row in driver.find_elements("css selector", "tr.selected")]
    headings = texts(driver, "#detail h3")
    assert any(text.startswith("Values") for text in headings)
    assert "Before: float" in headings


def test_a_float_island_says_why_it_is_float(driver: Any) -> None:
    driver.execute_script(
        "arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", node(driver, "softmax")
    )
    assert "Stays in float: target cpu has no kernel 'softmax'." in texts(driver, "#detail li")


def test_the_table_sorts_by_any_column_and_back(driver: Any) -> None:
    in_order = column(driver, 1)
    click(driver, "th[data-key=name] button")
    assert column(driver, 1) == sorted(in_order, key=str.lower)
    click(driver, "th[data-key=sqnr] button")
    figures = [float(text) for text in column(driver, 5) if text[0].isdigit()]
    assert figures == sorted(figures)
    assert len(figures) > 8
    click(driver, "th[data-key=sqnr] button")
    assert [float(text) for text in column(driver, 5) if text[0].isdigit()] == figures[::-1]
    click(driver, "th[data-key=sqnr] button")
    assert column(driver, 1) == in_order


def test_a_row_opens_its_kernel(driver: Any) -> None:
    driver.execute_script("document.querySelectorAll('#table tbody tr')[1].click()")
    assert texts(driver, "#detail h2") == ["stem.conv"]


def test_the_panel_links_to_the_nodes_before_and_after(driver: Any) -> None:
    assert texts(driver, "#detail .neighbours .link") == ["block.depthwise.conv", "block.add"]
    click(driver, "#detail .neighbours .link")
    assert texts(driver, "#detail h2") == ["block.depthwise.conv"]


def test_search_dims_the_graph_and_filters_the_table(driver: Any) -> None:
    driver.find_element("css selector", "#search").send_keys("block.")
    assert texts(driver, "#matches") == ["4 found"]
    assert len(driver.find_elements("css selector", ".node.dim")) == 11
    assert all(name.startswith("block.") for name in column(driver, 1))
    driver.find_element("css selector", "#search").send_keys("\ue007")  # Enter: the next one that was found
    assert texts(driver, "#detail h2")[0].startswith("block.")
    driver.find_element("css selector", "#search").send_keys("\ue00c")  # Escape
    assert not driver.find_elements("css selector", ".node.dim")


def test_kinds_filter_the_table(driver: Any) -> None:
    from selenium.webdriver.support.select import Select

    Select(driver.find_element("css selector", "#kind")).select_by_value("float")
    assert column(driver, 1) == ["softmax"]


def test_keys_walk_through_the_graph(driver: Any) -> None:
    press(driver, "/")
    assert driver.switch_to.active_element.get_attribute("id") == "search"
    driver.execute_script("document.getElementById('graph').focus()")
    press(driver, "\ue015")  # down
    assert texts(driver, "#detail h2") == ["block.add"]
    press(driver, "\ue013", "\ue013")  # up twice
    assert texts(driver, "#detail h2") == ["block.depthwise.conv"]
    press(driver, "0")
    scale = driver.execute_script("return d3.zoomTransform(document.querySelector('#graph svg')).k")
    press(driver, "+")
    assert driver.execute_script("return d3.zoomTransform(document.querySelector('#graph svg')).k") > scale


def test_colours_follow_the_metric(driver: Any) -> None:
    from selenium.webdriver.support.select import Select

    def fills() -> list[str]:
        return driver.execute_script(
            "return [...document.querySelectorAll('.node .shape')].map(e => e.getAttribute('fill'))"
        )

    before, menu = fills(), Select(driver.find_element("css selector", "#metric"))
    assert [option.get_attribute("value") for option in menu.options] == [
        "added",
        "total",
        "time",
        "headroom",
        "clipped",
    ]
    menu.select_by_value("headroom")
    assert fills() != before
    assert "bits" in texts(driver, "#legend")[0]


def test_dark_is_what_the_system_prefers_and_the_button_changes_it(driver: Any) -> None:
    def background() -> str:
        return driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor")

    light = background()
    prefer(driver, "dark")
    driver.refresh()
    dark = background()
    assert dark != light
    click(driver, "#theme")
    assert background() == light


def test_exports_are_the_document_and_the_table(driver: Any) -> None:
    driver.execute_script("""
        window.saved = {};
        URL.createObjectURL = (blob) => {
          blob.text().then((text) => { window.saved[blob.type] = text; });
          return "#";
        };
        HTMLAnchorElement.prototype.click = function () {};""")
    click(driver, "#save-json")
    click(driver, "#save-csv")
    saved = driver.execute_async_script("const done = arguments[0]; setTimeout(() => done(window.saved), 100)")
    assert json.loads(saved["application/json"])["format"] == "zeropoint report 1"
    head, *rows = saved["text/csv"].splitlines()
    assert head.startswith("name,kernel,shape,type,sqnr,added")
    assert len(rows) == 14


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_sticks_out_at_any_size(driver: Any, size: tuple[int, int], scheme: str, tmp_path: Path) -> None:
    resize(driver, *size)
    prefer(driver, scheme)
    driver.refresh()
    assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
    outside = driver.execute_script("""
        const allowed = ".scroll, svg, pre, .hidden, .skip, script";
        return [...document.querySelectorAll("body *")].filter((e) => !e.closest(allowed))
          .filter((e) => { const r = e.getBoundingClientRect(); return r.width > 1 && r.right > innerWidth + 1; })
          .map((e) => e.outerHTML.slice(0, 80));""")
    assert outside == []
    folder = Path(os.environ.get("ZEROPOINT_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"report-{size[0]}-{scheme}.png"
    assert driver.save_screenshot(str(picture))
    assert picture.stat().st_size > 20_000
