"""A local Hub: repositories of models as folders, with answers to the requests of huggingface_hub."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """Answers of a Hub whose repositories lie in `folder`; every file is committed as it is, never through LFS."""

    folder: Path

    def log_message(self, *_: object) -> None: ...

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length")
        body = self.rfile.read(int(length)) if length else self._chunks()
        kind = self.path.partition("?")[0].split("/")
        if self.path == "/api/repos/create":
            request = json.loads(body)
            name = "/".join(filter(None, [request.get("organization", "me"), request["name"].rpartition("/")[2]]))
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            (self.folder / name / ".asked").write_text(json.dumps(request))
            return self._answer({"url": f"http://{self.headers['Host']}/{name}", "name": name})
        if self.path == "/api/validate-yaml":
            return self._answer({"errors": [], "warnings": []})
        if "preupload" in kind:
            modes = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in json.loads(body)["files"]
            ]
            return self._answer({"files": modes})
        if "commit" in kind:
            for line in body.decode().splitlines():
                part = json.loads(line)
                if part["key"] == "file":
                    file = self.folder / "/".join(kind[3:5]) / part["value"]["path"]
                    file.write_bytes(base64.b64decode(part["value"]["content"]))
            place = f"http://{self.headers['Host']}/{'/'.join(kind[3:5])}/commit/{COMMIT}"
            return self._answer({"commitUrl": place, "commitOid": COMMIT, "hookOutput": ""})
        return self._answer({"error": "unknown"}, 404)

    def do_GET(self) -> None:
        words = self.path.partition("?")[0].strip("/").split("/")
        if words[:2] == ["api", "models"]:
            folder = self.folder / "/".join(words[2:4])
            if not folder.is_dir():
                return self._answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
            files = sorted(path.name for path in folder.iterdir() if path.name != ".asked")
            about = {"id": "/".join(words[2:4]), "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
            if "tree" in words:
                sizes = {name: (folder / name).stat().st_size for name in files}
                return self._answer(
                    [{"type": "file", "path": n, "size": size, "oid": COMMIT} for n, size in sizes.items()]
                )
            return self._answer(about)
        content = (self.folder / "/".join([*words[:2], *words[4:]])).read_bytes()
        return self._send(content, 200, {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'})

    do_HEAD = do_GET

    def _answer(self, content: object, status: int = 200, more: dict[str, str] | None = None) -> None:
        self._send(json.dumps(content).encode(), status, {"Content-Type": "application/json"} | (more or {}))

    def _send(self, content: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _chunks(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)


@contextmanager
def hub(folder: Path) -> Iterator[str]:
    """The address of a Hub with the repositories of a folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Of", (Hub,), {"folder": folder}))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
