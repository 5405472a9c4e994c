"""The built site in a real browser: no broken link, no message of the console, no horizontal scroll."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from repository import ROOT
from website.chromium import Browser, find

SITE = ROOT / "build" / "site"
WIDTHS = {390: 844, 1280: 900}  # of a phone and of a desktop, with heights, in pixels
# Pages whose screenshots are kept.
SHOWN = ("index", "first-steps", "tables", "results", "gallery/index", "api/generated/joker.KernelRidge")
CUT_OFF = "[...document.querySelectorAll('pre, .sig')].filter(one => one.scrollWidth > one.clientWidth + 1).length"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason=f"needs the site in {SITE}: make docs"),
]


class Links(HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def pages() -> list[Path]:
    return [page for page in sorted(SITE.rglob("*.html")) if "_static" not in page.parts]


def test_no_link_is_broken() -> None:
    found = {page: Links(page) for page in pages()}
    assert len(found) > 100
    broken = []
    for page, links in found.items():
        for target in set(links.targets):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = place / "index.html" if place.is_dir() else place
            if not place.is_file():
                broken.append(f"{page.relative_to(SITE)}: {target}")
            elif parts.fragment and place in found and unquote(parts.fragment) not in found[place].anchors:
                broken.append(f"{page.relative_to(SITE)}: {target}, which has no such anchor")
    assert not broken, "\n".join(broken)


class Quiet(SimpleHTTPRequestHandler):
    """A handler that prints nothing."""

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the site on the loopback interface."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find()
    if program is None:
        pytest.skip("needs chromium")
    with Browser(program, tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.mark.parametrize("width", WIDTHS)
def test_pages_in_a_browser(width: int, address: str, browser: Browser) -> None:
    problems = []
    for page in pages():
        name = page.relative_to(SITE).as_posix()
        browser.open(f"{address}/{name}", width, WIDTHS[width])
        problems += [f"{name}: {message}" for message in browser.messages]
        wide = browser.value("document.documentElement.scrollWidth")
        if wide > width:
            problems.append(f"{name}: {wide} pixels wide, which scrolls")
        if width > 1_000 and (cut := browser.value(CUT_OFF)):
            problems.append(f"{name}: {cut} blocks of code are cut off")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SHOWN)
def test_screenshots(name: str, width: int, scheme: str, address: str, browser: Browser, tmp_path: Path) -> None:
    """Saved in the folder that JOKER_SCREENSHOTS names, for a reader to look at."""
    folder = Path(os.environ.get("JOKER_SCREENSHOTS", tmp_path))
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(f"{address}/{name}.html", width, WIDTHS[width])
    path = folder / f"{re.sub(r'[^a-zA-Z]+', '-', name)}-{width}-{scheme}.png"
    browser.screenshot(path)
    assert path.stat().st_size > 10_000
