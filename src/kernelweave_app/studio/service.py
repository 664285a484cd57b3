"""The functions behind both the API and the pages."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from fastapi import Header, Query
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from kernelweave._errors import InputError
from kernelweave._types import DataFrame
from kernelweave.views.groups import expand_views, parse_views
from kernelweave_app.runs.fitting import (
    check_scoring,
    chosen,
    describe_choice,
    fits_plainly,
    make_cv,
    make_learner,
    make_model,
    path_setting,
)
from kernelweave_app.runs.formats import upload_suffixes
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.lineage import Lineage, read_lineage, repeating
from kernelweave_app.runs.preparing import Prepared, prepare, split
from kernelweave_app.runs.recommending import Recommendation, recommend
from kernelweave_app.runs.spec import Spec
from kernelweave_app.runs.survival import said
from kernelweave_app.studio.catalogue import Catalogue, receive_table
from kernelweave_app.studio.checking import Limits
from kernelweave_app.studio.comparing import compare_runs
from kernelweave_app.studio.jobs import LOG, EvidenceDesk, Queue, measure, read_log
from kernelweave_app.studio.looking import Looking, shorten
from kernelweave_app.studio.predicting import predict_table
from kernelweave_app.studio.schema import (
    About,
    Artifact,
    Checked,
    Comparison,
    Data,
    Draft,
    Event,
    Expected,
    KernelPreviews,
    Log,
    Marks,
    Metric,
    PathPoint,
    PathPoints,
    Predicted,
    Results,
    Run,
    RunId,
    RunRequest,
    TableId,
    TableRef,
    Views,
)
from kernelweave_app.studio.store import (
    DRAFT,
    FINAL,
    FIRST,
    Places,
    Store,
    changed,
    describe_run,
    no_project,
    room,
)
from kernelweave_app.studio.worker import KERNELS, RESULTS, count_steps


def try_splits(spec: Spec, prepared: Prepared, train: NDArray[np.intp]) -> None:
    """Make the first fold, inner and outer: a splitter that cannot divide the rows raises an error."""
    if spec.nested == 1:
        raise InputError("Setting `nested`: at least 2 outer folds are needed, or 0 for none.")
    groups = None if prepared.groups is None else prepared.groups[train]
    # a plain fit makes as many folds as the rows allow
    for number in (0 if fits_plainly(spec) else spec.cv, spec.nested):
        if number:
            folds = spec.model_copy(update={"cv": number})
            splitter = make_cv(folds, prepared.task, several=bool(prepared.names))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run itself warns of rare classes
                try:
                    next(iter(splitter.split(prepared.X.iloc[train], prepared.y[train], groups)))
                except ValueError as error:
                    raise InputError(f"The rows cannot be divided into {number} folds: {error}") from error


#: Number of rows on which kernels are tried before a run, and characters of what is predicted in the name of a run.
TRIED, LONGEST_NAME = 20, 60


#: Times at which survival is predicted; none for the usual ones.
PredictedTimes = Annotated[
    list[Annotated[float, Field(ge=0, allow_inf_nan=False)]] | None, Field(min_length=1, max_length=50)
]


class Studio(Looking):
    """One studio: a data folder with its tables and runs.

    Parameters
    ----------
    folder : Path
        The data folder.
    limits : Limits, optional
    at_once : int, default=1
        Runs at the same time.
    grace : float, default=20.0
        Seconds that a run has to stop by itself.

    Attributes
    ----------
    store, places, catalogue
        Those of one project in what `inside` returns, else of all runs and of the first project's tables.
    """

    def __init__(
        self, folder: Path, limits: Limits | None = None, *, at_once: int = 1, grace: float = 20.0
    ) -> None:
        self.places = Places(folder)
        self.limits = limits or Limits()
        self.store = Store(self.places.database)
        self.catalogue = Catalogue(self.places, self.limits)
        self.queue = Queue(self.store, self.places, at_once, grace)
        self.evidence = EvidenceDesk(self.store, self.places)
        self._drafting = threading.Lock()
        #: Folder of an MLflow file store, if runs may be written to one.
        self.mlflow_folder: Path | None = None
        #: Runs that have ended, with what the database said of them when they were read.
        self._read: dict[str, tuple[tuple[object, ...], Run]] = {}

    def inside(self, project: str) -> Studio:
        """The same studio, of which only the tables, the draft and the runs of a project are seen.

        Parameters
        ----------
        project : str
            The id of a project; empty for the oldest.

        Returns
        -------
        Studio
        """
        known = self.store.project_ids()
        project = project or known[0]
        if project not in known:
            raise no_project(project)
        store, places = self.store.inside(project), self.places.inside(project)
        catalogue, evidence = self.catalogue.inside(places), self.evidence.inside(store, places)
        return changed(self, store=store, places=places, catalogue=catalogue, evidence=evidence)

    def about(self) -> About:
        """Version, folder and limits."""
        import kernelweave

        return About(
            version=kernelweave.__version__,
            data_folder=str(self.places.files),
            upload=self.limits.upload,
            suffixes=list(upload_suffixes()),
        )

    # ---- tables -----------------------------------------------------------------------------------

    def tables(self) -> list[TableRef]:
        """All tables to choose from, those of the project first."""
        refs = [entry.ref for entry in self.catalogue.entries().values()]
        return sorted(refs, key=lambda ref: (ref.source != "data folder", ref.name.lower()))

    async def upload(self, name: str, stream: AsyncIterator[bytes]) -> TableRef:
        """Receive a table as a stream of bytes: checked in size and content, then moved to the project's folder."""
        found = await receive_table(name, stream, self.places, self.limits)
        if found.about:
            self.catalogue.notes[self.places.files / found.name] = found.about
        return found

    def remove_table(self, table_id: TableId) -> None:
        """Delete a file of the data folder."""
        entry = self.catalogue.entry(table_id)
        if entry.ref.source != "data folder":
            raise InputError("Built-in sets cannot be removed.")
        path = entry.path()
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(
                f"{path.name} cannot be deleted: {error.strerror}. Is it open elsewhere?"
            ) from None

    # ---- kernels and settings ---------------------------------------------------------------------

    def views(
        self,
        data: Data,
        text: Annotated[str, Field(max_length=4_000_000)],
        format: Literal["toml", "gmt"],
    ) -> Views:
        """Views from the text of a file, without columns that the tables do not have."""
        named = parse_views(text, "The file", gmt=format == "gmt")
        columns = [c for c in self.catalogue.join(data).table.columns if c != data.key]
        known = set(columns)
        # gene sets name many columns that a table lacks, and comparing each with all columns takes long
        likely = {
            name: [c for c in view if c in known or set("*?[") & set(c)] for name, view in named.items()
        }
        views = expand_views(likely, columns, partial=True)
        unknown = {c for view in named.values() for c in view if c not in known and not set("*?") & set(c)}
        return Views(views=views, n_unknown=len(unknown))

    def prepared(self, data: Data, spec: Spec) -> tuple[Spec, Joined, Prepared]:
        """Tables divided into features and target. No setting may name a file."""
        spec = self.confined(data, spec)
        joined = self.catalogue.join(data, spec.rows)
        return spec, joined, prepare(joined, spec)

    @staticmethod
    def confined(data: Data, spec: Spec) -> Spec:
        """Settings without paths: views come as a table, further tables by their ids."""
        if spec.join:
            raise InputError("Setting `join`: name all tables in `data`.")
        if spec.view:
            raise InputError(
                "Setting `view`: the studio reads no files by their names. Name uploaded sparse files in `data`."
            )
        if spec.gram:
            raise InputError("Setting `gram`: name the files of kernels in `data`.")
        if isinstance(spec.views, str) and spec.views:
            raise InputError("Setting `views`: give the views themselves, not 'auto' or the name of a file.")
        several = len(data.tables) > 1 or bool(data.kernels)
        ways: dict[str, str] = {"key": data.key if several else spec.key}
        if len(data.tables) > 1 and data.by_order:
            ways = {"key": "", "rows": "order"}
        elif spec.rows == "order":
            raise InputError("Setting `rows`: to match rows by their order, say `by_order` in `data`.")
        return spec.model_copy(update=ways)

    def kernels(
        self, data: Data, spec: Spec, most: Annotated[int, Field(ge=0, le=200)] = 40
    ) -> KernelPreviews:
        """Describe the kernels of a run before it starts, with so many thumbnails."""
        from kernelweave_app.studio.previews import preview_kernels

        spec, _, prepared = self.prepared(data, spec)
        return preview_kernels(spec, prepared, most)

    def check(self, data: Data, spec: Spec) -> Checked:
        """Check that a run would work; raises `InputError` if not."""
        from kernelweave._checks import memory_budget
        from kernelweave.normalizers import resolve
        from kernelweave.views import as_table

        spec, _, prepared = self.prepared(data, spec)
        train, test = split(prepared, spec)
        model = make_model(spec, prepared, test)
        learner = make_learner(chosen(spec, prepared.task))
        if not np.isfinite(memory_budget(spec.max_memory)):
            raise InputError("Setting `max_memory`: a finite amount is needed, such as 2GB, or auto.")
        try_splits(spec, prepared, train)
        learner.check_task(prepared.task == "classification")
        check_scoring(model, prepared, train)
        resolve(model.normalize)
        # kernels by view are tried when they are fitted, and so is what is done with missing cells
        tried = model.kernels if isinstance(model.kernels, list) else []
        some = prepared.X.iloc[train[:TRIED]].dropna() if tried else []
        few = as_table(some) if len(some) else None
        for kernel in tried if few is not None else ():
            with np.errstate(all="ignore"):
                fine = np.isfinite(kernel(few)).all()
            if not fine:
                raise InputError(
                    f"Kernel {kernel.label!r} overflows on these rows. Choose smaller parameters."
                )
        n_classes = len(np.unique(prepared.y)) if prepared.task == "classification" else 1
        return Checked(
            task=prepared.task,
            reason=said(prepared.y) if spec.survival else prepared.reason,
            n_training=len(train),
            n_held=len(test),
            n_dropped=prepared.n_dropped,
            n_columns=prepared.X.shape[1],
            n_steps=count_steps(spec, n_classes if n_classes > 2 else 1, prepared.task),
            splitter=describe_choice(spec, prepared.task),
        )

    def recommend(self, data: Data, spec: Spec, question: str) -> Recommendation:
        """Recommend a learner and settings for a table."""
        spec = self.confined(data, spec)
        return recommend(self.catalogue.join(data, spec.rows), spec, question)

    def estimate(self, data: Data, spec: Spec) -> Expected:
        """Time and memory of a run, measured on few of its rows in a process of its own."""
        spec = self.confined(data, spec).model_copy(update=self.catalogue.further(data))
        return measure(spec, self.catalogue.paths(data), self.queue.at_once)

    # ---- runs -------------------------------------------------------------------------------------

    def add_run(
        self, request: RunRequest, idempotency_key: Annotated[str, Header(max_length=100)] = ""
    ) -> Run:
        """Put a run into the queue, once it is checked. Requests with the same `Idempotency-Key` start one run."""
        task = self.check(request.data, request.spec).task
        paths = self.catalogue.paths(request.data)
        spec = self.confined(request.data, request.spec)
        method = chosen(spec, task).method
        name = (
            request.name.strip() or f"{', '.join(paths)}: {shorten(spec.predicted, LONGEST_NAME)} by {method}"
        )
        files = self.catalogue.further(request.data)
        record = {
            **request.model_dump(),
            "spec": spec.model_dump(),
            "paths": paths,
            "method": method,
            "files": files,
        }
        return self.run(self.queue.add(name, record, idempotency_key, self.store.project or FIRST))

    def run(self, run_id: RunId) -> Run:
        """One run."""
        row = self.store.run(run_id)
        return describe_run(row, self.store.read(Metric, run_id), self.store.read(Marks, run_id))

    def runs(self) -> list[Run]:
        """All runs, newest first; those that have ended are read once."""
        metrics, marks = self.store.read_all(Metric), self.store.read_all(Marks)
        found = []
        for row in reversed(self.store.runs()):
            run_id = row["id"]
            beside = metrics.get(run_id, []), marks.get(run_id, [])
            key = (*row, len(beside[0]), str(beside[1]))
            kept = self._read.get(run_id)
            if kept is None or kept[0] != key:
                kept = key, describe_run(row, *beside)
                if row["state"] in FINAL:
                    self._read[run_id] = kept
            found.append(kept[1])
        return found

    def mark(self, run_id: RunId, marks: Marks) -> Run:
        """Pin a run, or write about it."""
        self.store.run(run_id)
        self.store.write(run_id, marks)
        return self.run(run_id)

    def change_marks(self, run_id: str, **values: object) -> Run:
        """Change some of what is written about a run, in one transaction."""
        with self._drafting:
            return self.mark(run_id, self.run(run_id).marks.model_copy(update=values))

    def points(self, run_id: RunId, after: Annotated[int, Field(ge=0, le=2**53)] = 0) -> PathPoints:
        """Points of a path that is being computed: those after a given number."""
        record = json.loads(self.store.run(run_id)["request"])
        method = record.get("method") or record["spec"]["method"]
        names = self.places.run(run_id) / KERNELS
        return PathPoints(
            kernels=json.loads(names.read_text("utf8")) if names.exists() else [],
            points=self.store.read(PathPoint, run_id, after, most=2000),
            parameter="C" if path_setting(method) == "Cs" else "alpha",
        )

    def log(self, run_id: RunId) -> Log:
        """Events and output of a run."""
        self.store.run(run_id)
        return Log(events=self.store.read(Event, run_id), text=read_log(self.places.run(run_id) / LOG))

    def cancel(self, run_id: RunId) -> Run:
        """Stop a run; what is done is kept."""
        self.store.run(run_id)
        self.queue.cancel(run_id)
        return self.run(run_id)

    def delete(self, run_id: RunId) -> None:
        """Delete a run and its files."""
        self.store.run(run_id)
        self.queue.delete(run_id)
        self._read.pop(run_id, None)

    def results(self, run_id: RunId) -> Results:
        """Everything that is shown about a finished run."""
        path = self.places.run(run_id) / RESULTS
        row = self.store.run(run_id)
        if row["state"] not in FINAL or not path.exists():
            raise InputError("This run has no results yet.")
        try:
            return Results.model_validate_json(path.read_bytes(), extra="ignore")
        except ValidationError:
            raise InputError(
                "The results of this run were written by another version of kernelweave. Its model still predicts, and "
                "its files can be downloaded; run it again to look at it here."
            ) from None

    def artifacts(self, run_id: RunId) -> list[Artifact]:
        """Files of a run."""
        self.store.run(run_id)
        return self.store.read(Artifact, run_id)

    def artifact(self, run_id: str, name: str) -> Path:
        """One file of a run, of those that it recorded."""
        if name not in {a.name for a in self.artifacts(run_id)}:
            raise InputError(f"Run {run_id} has no file {name!r:.60}.")
        return self.places.run(run_id) / name

    def command(self, run_id: str) -> str:
        """The command that fits the model of a run again, with its settings and its tables."""
        settings = self.artifact(run_id, "spec.toml")
        paths = json.loads(self.store.run(run_id)["request"])["paths"]
        return repeating(paths, str(settings.resolve()))

    def lineage(self, run_id: str) -> Lineage | None:
        """Where the numbers of a run come from, and what has changed since; None where it recorded nothing."""
        self.store.run(run_id)
        return read_lineage(self.places.run(run_id))

    def export_to_mlflow(self, run_id: str) -> str:
        """Write a finished run to the MLflow folder of this studio; returns the id that it has there."""
        from kernelweave_app.studio.mlflow_export import export_run

        if self.mlflow_folder is None:
            raise InputError("This studio has no MLflow folder. Start it with --mlflow FOLDER.")
        run = self.run(run_id)
        folder = self.places.run(run_id)
        files = [folder / artifact.name for artifact in self.artifacts(run_id)]
        return export_run(self.mlflow_folder, run, folder, files, self.lineage(run_id))

    def predict(self, run_id: RunId, data: Data, times: PredictedTimes = None) -> Predicted:
        """Predict new rows with the model of a run. What each file is used as follows from its content.

        Of survival, `times` are those until which the probability of no event is predicted.
        """
        spec = Spec(**json.loads(self.store.run(run_id)["request"])["spec"])
        folder = self.places.run(run_id)
        with room(self.places.root):
            model = self.artifact(run_id, "model.skops")
            training = self._training_rows(run_id, spec)
            found, path = predict_table(model, spec, folder, self.catalogue, data, training, times)
        self.store.write(run_id, Artifact(name=path.name, kind="predictions", size=path.stat().st_size))
        return found

    def _training_rows(self, run_id: str, spec: Spec) -> DataFrame | None:
        """The training rows of a run; None where its tables have changed or are gone."""
        lineage = self.lineage(run_id)
        try:
            if lineage is None or lineage.changed:
                return None
            _, _, prepared = self.prepared(self.run(run_id).request.data, spec)
            return prepared.frame.iloc[split(prepared, spec)[0]]
        except InputError:
            return None

    def compare(self, run_id: Annotated[list[RunId], Query(min_length=1, max_length=10)]) -> Comparison:
        """Runs side by side: scores with their spread, weights, settings that differ."""
        runs = [self.run(one) for one in dict.fromkeys(run_id)]
        found: list[Results | None] = []
        for run in runs:
            try:
                found.append(self.results(run.id))
            except InputError:
                found.append(None)
        return compare_runs(runs, found, {ref.id: ref.name for ref in self.tables()})

    # ---- the draft --------------------------------------------------------------------------------

    def draft(self) -> Draft:
        """The draft."""
        kept = self.store.draft(DRAFT)
        try:
            return Draft.model_validate(kept) if kept else Draft()
        except ValueError:  # of an older version
            return Draft()

    def set_draft(self, draft: Draft) -> Draft:
        """Store the draft."""
        self.store.set_draft(DRAFT, draft.model_dump(mode="json"))
        return draft

    def change_draft(self, change: Callable[[Draft], Draft]) -> Draft:
        """Change the stored draft, in one transaction."""
        with self._drafting:
            return self.set_draft(change(self.draft()))
