"""Chromium without a window, driven through the pipe of its developer tools."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
RENUMBER = """
import os, sys
ends = [os.dup2(int(end), 100 + place) for place, end in enumerate(sys.argv[1:3])]
for place, end in enumerate(ends):
    os.dup2(end, 3 + place)
os.execv(sys.argv[3], sys.argv[3:])
"""
SECONDS = 60  # that an answer may take


def find() -> str | None:
    """The program, if it is installed."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser; messages of its console are collected."""

    def __init__(self, program: str, folder: Path) -> None:
        (to_read, self.to_write), (self.from_read, from_write) = os.pipe(), os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        place = [f"--user-data-dir={folder}", "--no-first-run", "--disable-background-networking"]
        # The browser reads commands from the file with the number 3 and writes answers to 4.
        renumbered = [sys.executable, "-c", RENUMBER, str(to_read), str(from_write)]
        self.process = subprocess.Popen(
            [*renumbered, program, *options, *place, "about:blank"],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self.count, self.rest, self.messages = 0, b"", list[str]()
        self.loaded = False
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=SECONDS)
        os.close(self.to_write)
        os.close(self.from_read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive in the meantime are noted."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        number = self.count
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def open(self, address: str, width: int, height: int) -> None:
        """Open a page at a width in pixels, and wait until it is loaded."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.loaded = False
        self.messages.clear()
        self.call("Page.navigate", url=address)
        while not self.loaded:
            self._note(self._next())
        self.value("new Promise(done => setTimeout(done, 50))")

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.from_read], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser did not answer within {SECONDS} s"
            self.rest += os.read(self.from_read, 2**20)
        text, _, self.rest = self.rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        method, facts = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(facts["exceptionDetails"].get("text")))
        elif method == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning"):
            self.messages.append(" ".join(str(one.get("value", one.get("description"))) for one in facts["args"]))
        elif method == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.messages.append(f"{facts['entry']['text']} {facts['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent" and not facts["request"]["url"].startswith(
            ("http://127.0.0.1", "data:", "blob:")
        ):
            self.messages.append(f"a request to {facts['request']['url']}")
