"""Headless Chromium, driven through a pipe: no package is needed for it."""

import atexit
import base64
import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from harness import Skipped


class Chromium:
    """One browser with one page. It ends with the program."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise Skipped("chromium is not there")
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to_write = os.pipe()
        self.to_read, to_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--hide-scrollbars", f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "about:blank"]  # fmt: skip
        # Chromium reads commands from descriptor 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}', program, *flags],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self.held, self.count, self.session, self.complaints = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        atexit.register(self.end)

    def show(self, width, height, dark):
        """Changes what the page sees of its screen, and forgets what came before."""
        self.open("about:blank")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.complaints = []

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.to_write)
        os.close(self.to_read)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.held:
            piece = os.read(self.to_read, 1 << 20)
            assert piece, "chromium has ended"
            self.held += piece
        text, _, self.held = self.held.partition(b"\0")
        message = json.loads(text)
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown" or params.get("entry", {}).get("level") in (
            "warning",
            "error",
        ):
            self.complaints.append(params)
        return message

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_write, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.receive()
            if reply.get("id") == self.count:
                assert "error" not in reply, reply
                return reply["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for(f"location.href === {url!r} && document.readyState === 'complete'")

    def evaluate(self, script):
        """What the expression gives; promises are waited for."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait_for(self, script, seconds=20):
        """Waits until the expression is true."""
        end = time.monotonic() + seconds
        while not self.evaluate(script):
            assert time.monotonic() < end, f"not true after {seconds} s: {script}"
            time.sleep(0.05)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, modifiers=0):
        """Presses and lets go of a key; of the modifiers 1 is Alt and 8 Shift."""
        codes = {"Enter": 13, "Tab": 9, " ": 32, "Escape": 27, "ArrowUp": 38, "ArrowDown": 40}
        text = {"Enter": "\r", " ": " "}.get(key, "")
        event = {"key": key, "modifiers": modifiers, "windowsVirtualKeyCode": codes[key]}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))


@functools.cache
def browser():
    return Chromium()


def page_of(width=1280, height=800, dark=False):
    """The browser's page, empty."""
    page = browser()
    page.show(width, height, dark)
    return page
