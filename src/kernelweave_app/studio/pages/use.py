"""The page for predictions of new rows, and for downloads of model, report, figures and script."""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._drawing import score_text
from kernelweave._errors import InputError
from kernelweave_app.runs.scripts import AGAIN, STOPPED
from kernelweave_app.studio.pages.frame import within
from kernelweave_app.studio.pages.pieces import (
    big_table,
    card,
    drop_zone,
    dropdown,
    file_row,
    hint,
    link,
    note,
    once,
    plural,
    simple_table,
    size,
    stack,
    stat,
    text,
    thumb,
    verbatim,
)
from kernelweave_app.studio.pages.runs import RunPage, round_off, targets_card
from kernelweave_app.studio.schema import Artifact, Data, Predicted, Run, TableRef
from kernelweave_app.studio.store import FILES


def address(run_id: str, name: str, *, show: bool = False) -> str:
    """The address of a file of a run."""
    return f"/api/runs/{run_id}/files/{quote(name)}{'?show=true' if show else ''}"


def read_times(field: ui.input | None) -> list[float] | None:
    """The times in a field; None where it is empty."""
    text = "" if field is None else (field.value or "").replace(",", " ")
    try:
        return [float(part) for part in text.split()] or None
    except ValueError:
        raise InputError(f"Times must be numbers such as 100, 365, got {text!r:.40}.") from None


class UsePage(RunPage):
    """The page for predictions of new rows, and for downloads."""

    path, title, icon = "/use", "Use", "output"
    lead = "Predict new rows, and download model, report, figures, settings and script."

    async def show(self, run: Run) -> None:
        """Fields for new rows, files, figures and the script."""
        tables = await offload(self.studio.tables)
        made = await offload(self.studio.artifacts, run.id)
        with stack("kw-two"):
            self.predict(run, tables)
            with stack():
                self.files(run, made)
        self.result(None)
        self.figures(run, made)
        self.script(*await offload(self.again, run))

    # ---- predicting -------------------------------------------------------------------------------

    def predict(self, run: Run, tables: list[TableRef]) -> None:
        """Choose a table and predict its rows."""
        data = run.request.data
        with card("Predict", "Choose a table with the columns of the model."):
            several = len(data.files) > 1
            label = "Files of the new rows" if several else "Table"
            options, props = {ref.id: ref.name for ref in tables}, "use-chips" if several else ""
            pick = dropdown(options, props=props, label=label, multiple=several, with_input=True)
            pick.style("width: 100%")
            if several:
                hint("In any order: tables, kernels and sparse views are told by their contents.")

            async def uploaded(new: str) -> None:
                refs = await offload(self.studio.tables)
                now = [*(pick.value or []), new] if several else new
                pick.set_options({ref.id: ref.name for ref in refs}, value=now)

            drop_zone(
                "Or drop new files here" if several else "Or drop a new file here", uploaded, multiple=several
            )

            times = None
            if run.request.spec.survival:
                times = ui.input("Times, separated by commas", placeholder="quarters of the times of events")
                times.props("outlined dense").style("width: 100%")
                hint("At each of them the probability of no event until then is predicted.")

            async def go() -> None:
                found = pick.value if several else [pick.value]
                if not found or not found[0]:
                    raise InputError("Choose a table first.")
                new = Data(tables=found, key=data.key)
                self.result.refresh(await offload(self.studio.predict, run.id, new, read_times(times)))
                self.files.refresh(run, await offload(self.studio.artifacts, run.id))

            with stack("kw-end"):
                once("Predict", "bolt", go)

    @ui.refreshable_method
    def result(self, found: Predicted | None) -> None:
        """The predictions that were made."""
        if found is None:
            return
        with card("New predictions") as aside:
            with aside:
                link("Download", address(self.run_id, found.artifact)).props("download")
            with stack("kw-stats"):
                stat(str(found.n_rows), "row" if found.n_rows == 1 else "rows")
                n = found.n_rows - found.n_missing - (found.apart.n_fitted if found.apart else 0)
                for name, value in found.scores.items():
                    stat(score_text(name, value, n), name)
            if found.apart:
                note(found.apart.sentence, "warn")
                heads, *lines = found.apart.table()
                simple_table(heads, lines, numbers=range(1, len(heads)), label="Scores")
            for old, new in found.stands_for.items():
                hint(f"{new} is used for {old}.")
            if found.n_missing:
                rows = plural(found.n_missing, "row with missing values has", "rows with missing values have")
                note(f"{rows} no prediction; rows like these were left out of training too.", "warn")
            if found.n_flagged:
                note(
                    f"{plural(found.n_flagged, 'row has', 'rows have')} a remark in the column mind: cells that were "
                    "filled, new categories, or no training row near.",
                    "warn",
                )
            if not found.compared:
                hint(
                    "The tables of this run have changed, so that new rows are not compared with the training rows."
                )
            if any(name.startswith("low") for name in found.columns):
                hint("Low and high: intervals that hold the target of 90 % of new rows.")
            if not found.scores and not found.apart:
                hint("The table has no known target, so there is no score.")
            if found.targets:
                targets_card(found.columns, found.rows, found.targets)
            big_table(
                found.columns, [[round_off(v) for v in row] for row in found.rows], label="New predictions"
            )
            if found.n_rows > len(found.rows):
                hint(f"The first {len(found.rows)} of {plural(found.n_rows, 'row')}; the file has all.")

    # ---- files ------------------------------------------------------------------------------------

    @ui.refreshable_method
    def files(self, run: Run, artifacts: list[Artifact]) -> None:
        """Everything but figures."""
        made = {file.name: file for file in artifacts}
        with card("Files"), stack("kw-stack tight"):
            with file_row(
                "Folder", "Model, tables, settings and scripts with relative paths. It runs elsewhere."
            ):
                link("Download", f"/api/runs/{run.id}/folder", download="Download the folder of the run")
            for name, (_, title, about) in FILES.items():
                if title and name in made:
                    self.file(run, name, title, f"{about} {size(made[name].size)}")
            for name, file in made.items():
                if file.kind == "predictions" and name not in FILES:
                    self.file(run, name, "Predictions", f"{name}, {size(file.size)}")

    def file(self, run: Run, name: str, title: str, about: str) -> None:
        """A file to view or to download."""
        with file_row(title, about), stack("kw-row").style("flex-wrap: nowrap"):
            if name == "report.html":
                link("Open", address(run.id, name, show=True), new_tab=True)
            link("Download", address(run.id, name), download=f"Download {name}")

    def figures(self, run: Run, artifacts: list[Artifact]) -> None:
        """Figures for papers."""
        made = [file.name for file in artifacts if file.kind == "figure" and file.name.endswith(".svg")]
        if not made:
            return
        with card("Figures", "As SVG and PDF."), stack("kw-figures"):
            for name in made:
                stem = name.removesuffix(".svg")
                what = stem.removeprefix("figures/")
                plainly = what.replace("-", " ")
                with thumb(within(address(run.id, name, show=True)), plainly) as caption:
                    caption.classes("kw-row")
                    text(plainly, "b").style("font-weight: 500; flex: 1")
                    for kind in ("svg", "pdf"):
                        said = f"Download {what} as {kind.upper()}"
                        link(kind.upper(), address(run.id, f"{stem}.{kind}"), download=said)

    def again(self, run: Run) -> tuple[str, str]:
        """The script and the command that repeat a run; empty where it left none."""
        try:
            return self.studio.artifact(run.id, "script.py").read_text("utf8"), self.studio.command(run.id)
        except InputError:
            return "", ""

    def script(self, content: str, command: str) -> None:
        """The script, to be read before it is run, and the command."""
        if not content:
            note("This run left no script.", "warn")
            return
        what = STOPPED if STOPPED in content else AGAIN
        with card("The same in Python", f"With the public interface alone: {what}"):
            verbatim(content, "Python script")
        if STOPPED in content:
            return
        with card(
            "The same on the command line", "With the tables and the settings of this run, on this machine."
        ):
            verbatim(command, "Command")
