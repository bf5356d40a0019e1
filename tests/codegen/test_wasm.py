"""examples/wasm: built as its README says, it gives the bytes of the interpreter, in Node.js and in Chromium."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import numpy as np
import pytest

from digits import DIGITS, quantized_digits
from zeropoint.ir.tensors import Array
from zeropoint.model import Model

EXAMPLE = DIGITS.parent / "wasm"
CHROMIUM = shutil.which("chromium")
OFFLINE = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", *OFFLINE]
BYTES = """<script type="module">
import { load } from "./digits.mjs";
const bytes = async (name) => (await fetch(name)).arrayBuffer();
const classify = await load(await bytes("digits.wasm"), await (await fetch("digits.h")).text());
const pixels = new Float32Array(await bytes("images.bin"));
const found = [];
for (let first = 0; first < pixels.length; first += 784) {
  const row = new Uint8Array(classify(pixels.subarray(first, first + 784)).buffer);
  found.push(Array.from(row, (byte) => byte.toString(16).padStart(2, "0")).join(""));
}
await fetch("found", { method: "POST", body: found.join(" ") });
</script>"""
DRAWN = """<iframe src="index.html"></iframe><script type="module">
const body = () => document.querySelector("iframe").contentDocument.body;
while (body()?.dataset.ready !== "yes") await new Promise((later) => setTimeout(later, 50));
const rows = Array.from(body().querySelectorAll("output"), (row) => row.value);
await fetch("found", { method: "POST", body: rows.join(";") });
</script>"""

pytestmark = pytest.mark.skipif(shutil.which("wasm-ld") is None, reason="wasm-ld is not installed (Debian: lld)")


def images() -> Array:
    with np.load(DIGITS / "test.npz") as file:
        return np.ascontiguousarray(file["image"][:5], np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with the compiled network in it, linked by the command of its README."""
    folder = tmp_path_factory.mktemp("wasm") / "example"
    shutil.copytree(EXAMPLE, folder)
    model = Model(quantized_digits().integer)
    model.compile(folder / "digits.o", triple="wasm32-unknown-unknown")
    (link,) = (line for line in (EXAMPLE / "README.md").read_text().splitlines() if line.startswith("wasm-ld"))
    subprocess.run(shlex.split(link), cwd=folder, check=True)
    (folder / "images.bin").write_bytes(images().tobytes())
    (folder / "bytes.html").write_text(BYTES)
    (folder / "drawn.html").write_text(DRAWN)
    return folder


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """What the interpreter computes for every image, in hexadecimal."""
    model = Model(quantized_digits().integer)
    return [model(image=image[None])["probabilities"].tobytes().hex() for image in images()]


def test_node_gives_the_bytes_of_the_interpreter(folder: Path, expected: list[str]) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, folder / "classify.mjs"]
    done = subprocess.run(command, input=images().tobytes(), capture_output=True, check=True)
    assert [line.split()[2] for line in done.stdout.decode().splitlines()] == expected


class Site(SimpleHTTPRequestHandler):
    """A folder, and a page's answer: what it posts goes into a queue."""

    def __init__(self, *arguments: Any, answers: Queue[str], directory: Path):
        self.answers = answers
        super().__init__(*arguments, directory=str(directory))

    def do_POST(self) -> None:
        self.answers.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not printed."""


def answer(folder: Path, page: str, profile: Path) -> str:
    """What a page of the folder posts once Chromium has run it."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    answers: Queue[str] = Queue()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, answers=answers, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/{page}"
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", url]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
            try:
                return answers.get(timeout=120)
            finally:
                browser.terminate()
                server.shutdown()


def test_a_browser_gives_the_bytes_of_the_interpreter(folder: Path, expected: list[str], tmp_path: Path) -> None:
    assert answer(folder, "bytes.html", tmp_path).split() == expected


def test_the_page_to_draw_on_shows_ten_probabilities(folder: Path, tmp_path: Path) -> None:
    shown = [float(row.removesuffix(" %")) for row in answer(folder, "drawn.html", tmp_path).split(";")]
    assert len(shown) == 10
    assert sum(shown) == pytest.approx(100, abs=1)
