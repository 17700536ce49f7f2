"""A page in headless Chromium: its DOM after scripts ran, its console messages and its network requests."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         "--disable-background-networking", "--disable-extensions", "--disable-dev-shm-usage",
         "--host-resolver-rules=MAP * ~NOTFOUND"]  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    dom: str
    console: list[str]
    requests: list[str]  # of the page itself; Chromium's own have no origin


class Browser:
    """One Chromium, started anew for each page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = next(filter(None, map(shutil.which, NAMES)), None)
        if self.command is None:
            pytest.skip(f"none of {', '.join(NAMES)} is on PATH")

    def load(self, content: str) -> Loaded:
        log, page = self.folder / "net.json", self.folder / "page.html"
        page.write_text(content)
        command = [self.command, *FLAGS, f"--user-data-dir={self.folder / 'profile'}", "--dump-dom"]
        command += [f"--log-net-log={log}", "--enable-logging=stderr", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        events = json.loads(log.read_text())["events"]
        requests = [event["params"] for event in events if "initiator" in event.get("params", {})]
        return Loaded(done.stdout, console, [p["url"] for p in requests if p["initiator"] != "not an origin"])

    def answer(self, page: str, script: str) -> object:
        """Returns the argument of a script's `answer(...)`; its `page` and `view` are the page's document and window.

        The page is in a frame of 1,280 pixels, since Chromium's window has a minimum width. It runs only its own
        scripts.
        """
        frame = self.load(
            f'<!doctype html><iframe style="width:1280px;height:900px;border:0" srcdoc="{escape(page)}">'
            "</iframe><script>addEventListener('load', () => { const view = frames[0], page = view.document;"
            "const answer = (said) => { document.title = 'answer ' + JSON.stringify(said); };\n"
            f"{script}\n}});</script>"
        )
        return json.loads(unescape(re.search(r"<title>answer (.*?)</title>", frame.dom, re.DOTALL)[1]))
