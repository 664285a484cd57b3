"""Fail if a built page would load a script, a style, a font, a frame or a picture from another machine.

Usage: python check_offline.py FOLDER
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}
REMOTE = re.compile(r"^\s*(?:https?:)?//", re.IGNORECASE)
CSS_REMOTE = re.compile(r"""(?:url\(\s*|@import\s+)['"]?(?:https?:)?//[^'")\s]+""", re.IGNORECASE)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.remote: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "link" and values.get("rel") in {"canonical", "license", "author"}:
            return
        if tag in LOADED:
            self.remote += [
                v for k, v in attrs if k in {"src", "href", "data", "srcset"} and REMOTE.match(v or "")
            ]


def remote_requests(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".css":
        return CSS_REMOTE.findall(text)
    page = Page()
    page.feed(text)
    return page.remote


def main(folder: str) -> int:
    files = [p for p in Path(folder).rglob("*") if p.suffix in {".html", ".css"}]
    if not files:
        print(f"No pages in {folder}.")
        return 1
    found = [(path, url) for path in files for url in remote_requests(path)]
    for path, url in found:
        print(f"{path}: loads {url}")
    if not found:
        print(f"{len(files)} pages and styles, none loads anything from another machine.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
