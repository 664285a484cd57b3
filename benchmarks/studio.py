"""Seconds of the studio's pages, blocks of its event loop and its memory: ``python -m benchmarks.studio studio.json``.

A server in a process of its own, asked by Chromium: the first page of a new server and of one in use, every page on
tables of 20,000 rows x 26 columns and of 100 rows x 20,000 columns, a list of 200 runs, and the memory after visits of
all pages; then the memory of another server, with usual tables only. A page counts as there when its heading is
visible, and none of its parts says that it waits. The first visit reads and computes, a second one finds answers that
are kept. Blocks are the longest times between two turns of the server's event loop.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Seconds between two looks of the server at its own event loop.
BEAT = 0.01
#: Seconds without a part that waits, after which a page is there; they do not count.
REST = 0.25
#: Blocks that are written down, with what ran.
LONG = 0.1
PAGES = ("/projects", "/", "/kernels", "/method", "/runs", "/understand", "/compare", "/use")
SHAPES = {"20,000 x 26": (20_000, 26), "100 x 20,000": (100, 20_000)}
USUAL = ("wine", "breast-cancer", "iris", "diabetes", "digits")
SPEC = {"target": "target", "kernels": "linear; rbf(gamma=0.01)", "alphas": "3", "cv": 2, "test_size": 0.3}

Figures = dict[str, Any]


# ---- the server -----------------------------------------------------------------------------------


def serve(folder: str, blocks: str) -> None:
    """The command of the studio, whose event loop is watched."""
    import asyncio

    import uvicorn

    from kernelweave_app.cli import main

    plain = uvicorn.Server.serve
    last = [time.monotonic()]
    loop_thread = [0]

    async def beat() -> None:
        loop_thread[0] = threading.get_ident()
        while True:
            last[0] = time.monotonic()
            await asyncio.sleep(BEAT)

    def watch() -> None:
        # a thread sees what runs while the loop is blocked; it sees nothing while a call keeps the interpreter
        while True:
            time.sleep(BEAT)
            start = last[0]
            seen = ""
            while last[0] == start:
                if time.monotonic() - start > LONG and not seen:
                    frame = sys._current_frames().get(loop_thread[0])
                    while frame is not None and len(seen) < 4000:
                        seen += f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno} "
                        frame = frame.f_back
                time.sleep(BEAT / 2)
            if last[0] - start > LONG + BEAT and start:
                with open(blocks, "a", encoding="utf8") as file:
                    file.write(json.dumps([time.time(), last[0] - start - BEAT, seen]) + "\n")

    async def watched(self: Any, *args: Any, **kwargs: Any) -> None:
        task = asyncio.create_task(beat())
        threading.Thread(target=watch, daemon=True).start()
        try:
            await plain(self, *args, **kwargs)
        finally:
            task.cancel()

    uvicorn.Server.serve = watched  # type: ignore[method-assign]
    sys.argv = ["kernelweave", "studio", "--no-browser", "--data-dir", folder]
    main()


class Server:
    """A studio in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.blocks = folder, folder / "blocks.jsonl"
        self.blocks.unlink(missing_ok=True)
        self.started = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.studio", "--serve", str(folder), str(self.blocks)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Open http" in line:
                self.login = line.split("Open ")[1].strip()
                break
        else:
            raise RuntimeError("The studio did not start.")
        # a full pipe would stop the server
        self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader.start()

    def memory(self) -> float:
        """Resident and largest resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf8")
        [kb] = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
        return round(int(kb) / 1000, 1)

    def longest(self, since: float) -> tuple[float, str]:
        """The longest block of the event loop since a time, and what ran."""
        if not self.blocks.exists():
            return 0.0, ""
        rows = [json.loads(line) for line in self.blocks.read_text("utf8").splitlines()]
        found = [(seconds, seen) for when, seconds, seen in rows if when - seconds >= since]
        seconds, seen = max(found, default=(0.0, ""))
        return round(seconds, 3), " ".join(seen.split()[:12])

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()
        self.reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()


# ---- the visitor ----------------------------------------------------------------------------------


class Visitor:
    """A page of a browser that has logged in."""

    def __init__(self, context: Any, server: Server) -> None:
        self.page, self.server = context.new_page(), server
        self.page.set_default_timeout(120_000)
        start = time.monotonic()
        self.page.goto(server.login)
        self.wait()
        self.first = time.monotonic() - start
        self.base = self.page.url.partition("/p/")[0]

    def wait(self) -> None:
        """Until the page is there and nothing on it waits."""
        self.page.wait_for_selector("h1")
        # a part that is drawn may begin another, which then says that it waits
        self.page.wait_for_function(
            """(rest) => {
              const rests = window.socket?.connected && !document.querySelector('.kw-waiting');
              const now = performance.now();
              window.resting = rests ? (window.resting ?? now) : undefined;
              return rests && now - window.resting > 1000 * rest;
            }""",
            arg=REST,
        )

    def visit(self, path: str) -> Figures:
        """Seconds until the heading, and until all is there; the longest block meanwhile."""
        since, start = time.time(), time.monotonic()
        self.page.goto(f"{self.base}/p/first{path}")
        self.page.wait_for_selector("h1")
        heading = time.monotonic() - start
        self.wait()
        whole = time.monotonic() - start - REST
        # a page that leaves takes work on the server too
        self.page.wait_for_timeout(150)
        block, seen = self.server.longest(since)
        return {"heading": round(heading, 3), "whole": round(whole, 3), "block": block, "in": seen}

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the API as pages do."""
        return self.page.evaluate(
            """async ([method, path, body]) => {
              const answer = await fetch(path, {method, body: body && JSON.stringify(body),
                headers: {'Content-Type': 'application/json'}});
              if (!answer.ok) throw new Error(await answer.text());
              return answer.json() }""",
            [method, f"{self.base.partition('/s/')[1]}{self.base.partition('/s/')[2]}/p/first{path}", body],
        )

    def fit(self, table: str) -> None:
        """A small run on a table, and wait for it."""
        run = self.call("POST", "/api/runs", {"data": {"tables": [table]}, "spec": SPEC, "name": "a run"})
        while run["state"] not in ("done", "failed", "cancelled"):
            time.sleep(0.3)
            run = self.call("GET", f"/api/runs/{run['id']}")
        assert run["state"] == "done", run

    def choose(self, table: str) -> None:
        """Make a table the one to learn from."""
        self.call("PUT", "/api/draft", {"data": {"tables": [table]}, "spec": SPEC})


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Chromium."""
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


# ---- what is measured -----------------------------------------------------------------------------


def write_tables(folder: Path) -> dict[str, str]:
    """Tables of both shapes; their ids."""
    # here, because the server is a process of this module too
    import numpy as np
    import pandas as pd

    from kernelweave_app.studio.catalogue import file_id

    found = {}
    rng = np.random.default_rng(0)
    for label, (n_rows, n_columns) in SHAPES.items():
        X = rng.normal(size=(n_rows, n_columns - 1)).round(5)
        table = pd.DataFrame(X, columns=[f"g{j}" for j in range(n_columns - 1)])
        table["target"] = np.where(X[:, 0] + rng.normal(size=n_rows) > 0, "yes", "no")
        name = f"{n_rows}x{n_columns}.csv"
        table.to_csv(folder / name, index=False)
        found[label] = file_id(name)
    return found


def many_runs(server_folder: Path, number: int) -> None:
    """Copies of the run that there is in the database, so that the list is long."""
    import sqlite3

    with sqlite3.connect(server_folder / "studio" / "studio.sqlite") as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(run)")]
        [first] = db.execute(f"SELECT {', '.join(columns)} FROM run ORDER BY created LIMIT 1").fetchall()
        for k in range(number):
            row = dict(zip(columns, first, strict=True))
            row["id"], row["created"] = f"{row['id'][:-6]}{k:06x}", row["created"] + 1e-3 * k
            row["name"] = f"copy {k}"
            db.execute(
                f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                [row[name] for name in columns],
            )
            db.execute(
                "INSERT INTO metric SELECT ?, name, value, spread FROM metric WHERE run = ?",
                [row["id"], first[0]],
            )


def journeys(number: int, pace: float) -> Figures:
    """Memory of a server where people choose a usual table, look at every page, fit, and read the results.

    They read a page for `pace` seconds.
    """
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        server = Server(Path(name))
        try:
            visitor = Visitor(chromium.new_context(viewport={"width": 1280, "height": 900}), server)
            time.sleep(8)
            figures["at the start"] = server.memory()
            for k in range(number):
                table = f"set-{USUAL[k % len(USUAL)]}"
                visitor.choose(table)
                for k_page, path in enumerate(PAGES):
                    if k_page == len(PAGES) // 2:
                        visitor.fit(table)
                    visitor.visit(path)
                    time.sleep(pace)
                figures[f"after {k + 1} journeys of {len(PAGES)} pages and a fit"] = server.memory()
                print(k + 1, server.memory(), "MB", flush=True)
        finally:
            server.close()
    return figures


def measure(rounds: int, visits: int) -> Figures:
    """All figures."""
    figures: Figures = {"load": os.getloadavg()[0], "pages": {}}
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        folder = Path(name)
        tables = write_tables(folder)
        server = Server(folder)
        try:
            visitor = Visitor(chromium.new_context(viewport={"width": 1280, "height": 900}), server)
            figures["first page of a new server, from its start"] = round(
                time.monotonic() - server.started, 2
            )
            figures["first page of a new server, from the address"] = round(visitor.first, 2)
            time.sleep(8)  # what is imported after the first page
            figures["memory at the start"] = server.memory()
            figures["first page of a server in use"] = visitor.visit("/projects")
            for label, table in tables.items():
                visitor.choose(table)
                rows = figures["pages"][label] = {}
                for path in PAGES:
                    rows[path] = [visitor.visit(path) for _ in range(rounds)]
                    print(label, path, rows[path], flush=True)
                visitor.fit(table)
                for path in ("/runs", "/understand", "/compare", "/use"):
                    rows[f"{path} with a run"] = [visitor.visit(path) for _ in range(rounds)]
                    print(label, path, rows[f"{path} with a run"], flush=True)
                figures[f"memory after {label}"] = server.memory()
                print(server.memory(), "MB", flush=True)
            many_runs(folder, 200)
            figures["list of 200 runs"] = [visitor.visit("/runs") for _ in range(rounds)]
            visitor.choose(tables["20,000 x 26"])
            for k in range(visits):
                visitor.visit(PAGES[k % len(PAGES)])
            figures[f"memory after {visits} more visits"] = server.memory()
            # pages that were left are kept for a browser that comes back
            time.sleep(45)
            figures["memory when these pages are forgotten"] = server.memory()
        finally:
            server.close()
    return figures


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--visits", type=int, default=40)
    parser.add_argument("--journeys", type=int, default=20)
    parser.add_argument("--pace", type=float, default=3.0)
    parser.add_argument("--serve", nargs=2, metavar=("FOLDER", "BLOCKS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(*asked.serve)
        return
    found = measure(asked.rounds, asked.visits) if asked.rounds else {}
    if asked.journeys:
        found["memory of a server with usual tables"] = journeys(asked.journeys, asked.pace)
    text = json.dumps(found, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n", "utf8")


if __name__ == "__main__":
    main()
