"""Fail if built pages show what a reader should not see.

Usage: python check_pages.py FOLDER

Looked for, in every page of the folder:

- the text of an object without a representation ("object at 0x");
- a sentence of which a list was made, because one of its lines begins like a list item;
- pictures that are missing, empty or of one colour, and figures that hold nothing;
- links to pages, files or places in pages that do not exist;
- pages of more than 2 MB, with the pictures on them;
- tables that may be wider than a phone and cannot be scrolled.

The widths are estimates: every column is at least as wide as its longest word, which only cells of code may break.
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MAX_BYTES = 2_000_000
#: Pixels: the narrowest screen that counts, a character of the text, and the padding of a cell.
SCREEN, CHARACTER, PADDING = 340, 8, 12
#: Classes of elements in which a table may be scrolled, or is shown as cards where there is no room. The styles that
#: a page loads must say so.
SCROLLED = re.compile(
    r"\.(pst-scrollable-table-container|table-cards|indextable)\b[^{}]*\{[^}]*(overflow(-x)?:\s*auto|display:\s*block)"
)
VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img"),
    *("input", "link", "meta", "source", "track", "wbr"),
}
SILENT = {"script", "style", "template"}
PICTURES = {".png", ".webp", ".jpg", ".jpeg", ".gif"}
DRAWN = re.compile(r"<(?:\w+:)?(path|rect|circle|ellipse|line|polyline|polygon|text|image|use)\b")
ADDRESS = re.compile(r"<[\w.]+ object at 0x|\bobject at 0x[0-9a-f]+", re.IGNORECASE)


class Element:
    """An open element: its tag, classes, text, and the element before its present child."""

    def __init__(self, tag: str, classes: set[str]) -> None:
        self.tag, self.classes = tag, classes
        self.text: list[str] = []
        self.before: tuple[str, str] = ("", "")
        self.holds = False


class Page(HTMLParser):
    """One page: places that can be linked to, links, pictures, text, and what is wrong with its structure.

    A table may be wide inside an element of one of the classes `scrolled`.
    """

    def __init__(self, text: str, scrolled: set[str]) -> None:
        super().__init__()
        self.scrolled = scrolled
        self.places: set[str] = set()
        self.links: list[str] = []
        self.pictures: list[str] = []
        self.styles: list[str] = []
        self.wrong: list[str] = []
        self.open: list[Element] = [Element("", set())]
        self.table: list[list[int]] | None = None
        self.head = True
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.places |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "img":
            self.pictures.append(values.get("src", ""))
        if tag == "link" and values.get("rel") == "stylesheet":
            self.styles.append(values.get("href", ""))
        if tag in {"img", "svg", "table", "pre", "video", "canvas", "math", "object"}:
            for element in self.open:
                element.holds = True
        if tag not in VOID:
            self._enter(tag, set(values.get("class", "").split()))

    def _enter(self, tag: str, classes: set[str]) -> None:
        parent = self.open[-1]
        if tag in {"ol", "ul"} and parent.before[0] == "p" and self._broken(parent.before[1]):
            self.wrong.append(f"a list in the middle of a sentence: ...{parent.before[1][-60:]!r}")
        if tag == "table":
            self.table = []
        elif tag == "tr" and self.table is not None:
            self.table.append([])
        self.open.append(Element(tag, classes))

    @staticmethod
    def _broken(text: str) -> bool:
        """Whether a paragraph before a list is left open: an unclosed bracket, or no mark at its end."""
        text = text.strip()
        return bool(text) and (text.count("(") > text.count(")") or text[-1].isalnum() or text[-1] == ",")

    def handle_endtag(self, tag: str) -> None:
        if not any(element.tag == tag for element in self.open):
            return
        while self.open[-1].tag != tag:
            self._leave(self.open.pop())
        self._leave(self.open.pop())

    def _leave(self, element: Element) -> None:
        parent, text = self.open[-1], "".join(element.text)
        if element.tag not in SILENT:
            parent.text.append(text if element.tag not in {"p", "li", "td", "th", "div"} else f"{text}\n")
        # a rubric is a heading
        parent.before = ("h6" if "rubric" in element.classes else element.tag, text)
        if element.tag == "figure" and not element.holds:
            self.wrong.append("a figure that holds nothing")
        if element.tag in {"td", "th"} and self.table:
            words = text.split() or [""]
            self.table[-1].append(max(map(len, words)))
        if element.tag == "table" and self.table is not None:
            rows, self.table = self.table, None
            columns = max(map(len, rows), default=0)
            longest = [max((row[k] for row in rows if k < len(row)), default=0) for k in range(columns)]
            width = sum(CHARACTER * letters + PADDING for letters in longest)
            inside = set().union(element.classes, *(other.classes for other in self.open))
            if width > SCREEN and not inside & self.scrolled:
                self.wrong.append(
                    f"a table of about {width} pixels, in nothing that scrolls: {text.split()[:6]}"
                )

    def handle_data(self, data: str) -> None:
        self.open[-1].text.append(data)
        if data.strip():
            self.open[-1].before = ("text", data)

    @property
    def text(self) -> str:
        return "".join(self.open[0].text)


def empty_picture(path: Path) -> str:
    """What is wrong with a picture, or nothing."""
    if not path.is_file():
        return "is missing"
    if path.stat().st_size == 0:
        return "is an empty file"
    if path.suffix == ".svg":
        # a figure without contents still has a background, and its clips
        return "" if len(DRAWN.findall(path.read_text(errors="replace"))) > 2 else "draws nothing"
    if path.suffix in PICTURES:
        from PIL import Image

        with Image.open(path) as image:
            ranges = image.convert("RGBA").getextrema()
        return "is of one colour" if all(low == high for low, high in ranges) else ""
    return ""


def scrolling_classes(folder: Path) -> set[str]:
    """Classes that make a table scroll, by all styles of the folder."""
    return {
        found[1]
        for path in folder.rglob("*.css")
        for found in SCROLLED.finditer(path.read_text(encoding="utf-8", errors="replace"))
    }


def problems_of(folder: Path) -> list[str]:
    """Everything that is wrong with the pages of a folder."""
    folder = folder.resolve()
    scrolled = scrolling_classes(folder)
    files = folder.rglob("*.html")
    pages = {path: Page(path.read_text(encoding="utf-8", errors="replace"), scrolled) for path in files}
    empty = cache(empty_picture)
    found = []
    for path, page in sorted(pages.items()):
        wrong = list(dict.fromkeys(page.wrong))
        if shown := ADDRESS.search(page.text):
            wrong.append(f"an object without a representation: {shown[0]}")
        size = path.stat().st_size
        for source in dict.fromkeys(page.pictures):
            parts = urlsplit(source)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path)
            if complaint := empty(target):
                wrong.append(f"the picture {source!r} {complaint}")
            else:
                size += target.stat().st_size
        if size > MAX_BYTES:
            wrong.append(f"{size / 1e6:.1f} MB with its pictures, above {MAX_BYTES / 1e6:g}")
        wrong += [f"a dead link to {link!r}" for link in dict.fromkeys(page.links) if dead(link, path, pages)]
        found += [f"{path.relative_to(folder)}: {text}" for text in wrong]
    return found


def dead(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Whether a link within the folder leads nowhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link in {"", "#"}:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    if target.is_dir():
        target /= "index.html"
    if target not in pages:
        return not target.is_file()
    return bool(parts.fragment) and unquote(parts.fragment) not in pages[target].places


def main(folder: str) -> int:
    files = list(Path(folder).rglob("*.html"))
    if not files:
        print(f"No pages in {folder}.")
        return 1
    found = problems_of(Path(folder))
    print(*found, sep="\n") if found else print(f"{len(files)} pages are in order.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
