"""A real browser for tests, driven by the DevTools protocol over a pipe: no driver to install."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest

#: Names of the program on different systems.
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = (
    "the tests of HTML pages need Chromium, which is not installed: apt-get install chromium "
    "(or name another with CHROMIUM=/path/to/it)"
)
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # root may not use the sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
)
#: A program that gives the ends of the pipes the numbers 3 and 4, and becomes Chromium.
LAUNCHER = """
import os, sys
for here, there in zip(sys.argv[1:3], (3, 4)):
    os.dup2(int(here), there)
os.execvp(sys.argv[3], sys.argv[3:])
"""


@dataclass
class Tab:
    """One page of the browser, and all events that it has reported."""

    into: BinaryIO
    out: BinaryIO
    session: str | None = None
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.into.write(json.dumps(message).encode() + b"\0")
        self.into.flush()
        while (answer := self._next()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self.out.read(1)) not in (b"\0", b""):
            text += byte
        assert text, "Chromium has ended"
        return json.loads(text)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Open a file in a window of this size, and wait until it is loaded."""
        self("Emulation.setDeviceMetricsOverride", **_screen(width, height))
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self("Page.navigate", url=path.absolute().as_uri())
        while not self.heard("Page.loadEventFired"):
            self.events.append(self._next())

    def heard(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of this kind since the page was opened."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self, selector: str) -> str:
        return self.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def move(self, x: float, y: float) -> None:
        """Move the mouse."""
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        """Press a key without a character, such as ArrowLeft."""
        for kind in ("rawKeyDown", "keyUp"):
            self("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def screenshot(self, path: Path) -> None:
        """Save a picture of the window."""
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))

    @property
    def asked(self) -> list[str]:
        """The addresses that were requested, the page's own first."""
        asked = [event["request"]["url"] for event in self.heard("Network.requestWillBeSent")]
        return [url for url in asked if not url.startswith("data:")]

    @property
    def troubles(self) -> list[Any]:
        """Errors on the console, exceptions, and requests for anything but files."""
        said = [e for e in self.heard("Runtime.consoleAPICalled") if e["type"] != "log"]
        fetched = [url for url in self.asked if not url.startswith("file:")]
        more = self.heard("Runtime.exceptionThrown") + self.heard("Log.entryAdded")
        return [*said, *fetched, *more]


def _screen(width: int, height: int) -> dict[str, Any]:
    return {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}


@contextmanager
def tab() -> Iterator[Tab]:
    """Start a browser and yield an empty page."""
    program = _program()
    (theirs_in, ours_out), (ours_in, theirs_out) = _pipe(), _pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        ends = (theirs_in, theirs_out)
        launch = [sys.executable, "-c", LAUNCHER, *map(str, ends), program, *OPTIONS]
        process = subprocess.Popen(
            [*launch, f"--user-data-dir={profile}"],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        with os.fdopen(ours_out, "wb") as into, os.fdopen(ours_in, "rb") as out:
            yield _attached(Tab(into, out))
            Tab(into, out)("Browser.close")
        process.wait(timeout=30)


def _program() -> str:
    """Return the path of Chromium; without it, skip the test, or fail under CI."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.environ.get("CI"):
        pytest.fail(MISSING)
    return found or pytest.skip(MISSING)


def _pipe() -> tuple[int, int]:
    """Open a pipe whose numbers are not 3 and 4, which Chromium expects for its own ends."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    for end in low:
        os.close(end)
    return high[0], high[1]


def _attached(browser: Tab) -> Tab:
    target = browser("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for part in ("Page", "Runtime", "Network", "Log"):
        browser(f"{part}.enable")
    return browser
