"""What a process of the studio does: ``python -m kernelweave_app.studio.worker TASK ARGUMENTS``.

A run and evidence write their progress where the server reads it, so that neither the page nor the server need to stay
open. Short tasks answer on standard output; neither their memory nor their work are the server's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelweave._errors import InputError
from kernelweave._extensions import load_extensions
from kernelweave._forms import numbered
from kernelweave._types import DataFrame, Tree
from kernelweave.estimators.choosing import not_an_estimate
from kernelweave.fitting.task import PathStep
from kernelweave.inspection.arguments import target_names
from kernelweave.inspection.held_times import HeldTimes
from kernelweave.inspection.registry import compute
from kernelweave.inspection.weights import fractions_of
from kernelweave_app.runs.evidence import (
    EVIDENCE,
    basis_of,
    intervals_of,
    read_evidence,
    total_of,
    write_evidence,
)
from kernelweave_app.runs.spec import SURVIVAL, Spec
from kernelweave_app.studio.jobs import (
    PRINTED,
    other_pids,
    own_start,
    read_status,
    status_file,
    stop_file,
    write_status,
)
from kernelweave_app.studio.schema import EITHER, Artifact, Metric, PathPoint, Results
from kernelweave_app.studio.store import (
    FILES,
    KEPT,
    MODEL,
    SAVING,
    DiskFull,
    Places,
    Store,
    describe_full,
    is_full,
)

if TYPE_CHECKING:
    from kernelweave import inspection
    from kernelweave._callbacks import CallbackContext
    from kernelweave.estimators import BaseMKL
    from kernelweave.inspection.held import HeldOut
    from kernelweave_app.reports import Picture
    from kernelweave_app.runs.lineage import Lineage
    from kernelweave_app.runs.preparing import Prepared, Rows
    from kernelweave_app.runs.reading import Run


#: Seconds between two writes; pages show a change within a second.
EVERY = 0.15
#: Number of weights stored for each point of the live chart.
MOST_WEIGHTS = 30


class Progress:
    """Counts steps, stores points of paths, and checks whether to stop.

    Parameters
    ----------
    store : Store
    run_id : str
    total : int
        Steps expected in all.
    outputs : sequence of str, default=()
        Classes, if each has a problem of its own.
    heard : callable, optional
        Called once when the run is found to be asked to stop.
    """

    def __init__(
        self,
        store: Store,
        run_id: str,
        total: int | None,
        outputs: Sequence[str] = (),
        heard: Callable[[], None] | None = None,
    ) -> None:
        self.store, self.run_id, self.total, self.outputs = store, run_id, total, tuple(outputs)
        self.heard = heard or (lambda: None)
        self.done = 0
        self.stage = ""
        #: The class of all steps, where they are those of one class.
        self.output = ""
        self.stopped = False
        self.draws = True
        self._points: list[PathPoint] = []
        self._last = 0.0

    def report(self, text: str) -> bool:
        """Record a finished step; returns whether to stop."""
        self.done += 1
        if self.total is not None:
            self.total = max(self.total, self.done)
        if isinstance(text, PathStep) and self.draws:
            self._points.append(self._point(text))
        if time.monotonic() - self._last > EVERY:
            self.flush(str(text))
        return self.stopped

    def flush(self, text: str) -> None:
        """Write the progress."""
        self._last, before = time.monotonic(), self.stopped
        said = f"{self.stage}: {text}" if self.stage else text
        try:
            if self._points:
                self.store.write(self.run_id, *self._points)
                self._points = []
            self.stopped = self.store.progress(self.run_id, self.done, self.total, said) or self.stopped
        except DiskFull:
            # a fit need not fail because its progress cannot be shown: the points wait for room
            self.stopped = self.store.is_cancelled(self.run_id) or self.stopped
        if self.stopped and not before:
            self.heard()

    def end(self, text: str) -> None:
        """End a stage; paths that end early have fewer steps than expected."""
        self.stage, self.done = "", self.total or self.done
        self.flush(text)

    # ---- as a callback of scikit-learn --------------------------------------------------------------

    def setup(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Start; the estimator gives the number of steps."""

    def teardown(self, estimator: BaseMKL, context: CallbackContext) -> None:
        """Write the last steps."""
        self.flush("")

    def on_fit_task_begin(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> None:
        """Nothing to record at the beginning of a step."""

    def on_fit_task_end(self, estimator: BaseMKL, context: CallbackContext, **kwargs: Any) -> bool:
        """Record a finished step."""
        return context.parent is not None and self.report(context.task_name)

    def __deepcopy__(self, memo: dict[int, object]) -> Progress:
        # scikit-learn copies callbacks with the estimator; there is one store
        return self

    def _point(self, step: PathStep) -> PathPoint:
        weights = np.atleast_2d(step.weights)
        weights = fractions_of(weights.reshape(-1, weights.shape[-1]), axis=1).mean(axis=0)
        order = np.argsort(-weights, kind="stable")[:MOST_WEIGHTS]
        unnamed = f"problem {step.problem + 1}" if step.problem else ""
        output = self.output or dict(enumerate(self.outputs)).get(step.problem, unnamed)
        return PathPoint(
            stage=step.label,
            output=output,
            alpha=step.alpha,
            rel_gap=step.rel_gap,
            n_active=int(np.count_nonzero(weights)),
            weights={int(m): round(float(weights[m]), 6) for m in order if weights[m] > 0},
        )


#: File in a run's folder with everything that the pages show.
RESULTS = "results.json"
#: Kernel names, written before the first weights.
KERNELS = "kernels.json"
#: With more classes than this, only the first ones have their own path.
MOST_PATHS = 10


def execute_run(folder: str, run_id: str) -> int:
    """Execute a run and record how it ended."""
    faulthandler.enable()
    places = Places(Path(folder))
    store = Store(places.database)
    pid = os.getpid()
    begun = {"pid": pid, "pid_started": own_start(), "started": time.time()}
    if not store.move(run_id, ("starting",), "running", **begun):
        print(f"Run {run_id} is not in the queue.", flush=True)
        return 1
    stopping = Stopping(places.run(run_id))
    signal.signal(signal.SIGTERM, stopping)
    try:
        store.add_event(run_id, f"Started as process {pid}.")
        Job(places, store, run_id, stopping).do()
    except KeyboardInterrupt:
        reason = "Stopped before a model was complete; nothing could be kept."
        _finish(store, run_id, "cancelled", KEPT if store.read(Artifact, run_id) else reason)
        return 0
    except BaseException as error:
        _finish(store, run_id, "failed", _why(error, places))
    else:
        return 0
    return 1


def _why(error: BaseException, places: Places) -> str:
    """Why a process failed, in words; what the words leave out is printed to its log."""
    if isinstance(error, InputError):
        print(error, flush=True)
        return str(error)
    traceback.print_exc()
    if isinstance(error, MemoryError):
        return "Out of memory. Use fewer rows or kernels, or a smaller max_memory."
    full = describe_full(places.root) if is_full(error) else ""
    return full or f"{type(error).__name__}: {str(error) or 'no reason given'}"


def read_asked(store: Store, run_id: str, origin: Lineage | None = None) -> Run:
    """A run as it was asked for, with its tables, and with its lineage if it has one."""
    from kernelweave_app.runs.reading import read_run

    request = json.loads(store.run(run_id)["request"])
    spec = Spec(**{**request["spec"], **request.get("files", {})})
    return read_run(request["paths"], spec, origin=origin)


def _finish(store: Store, run_id: str, state: str, reason: str) -> None:
    """Record the end; on a full disk the last output of the process is the reason that the server finds."""
    try:
        store.finish(run_id, state, reason)
    except DiskFull as error:
        print(error, flush=True)


class Stopping:
    """The answer to SIGTERM: a `KeyboardInterrupt`, but not while the model is being written.

    Parameters
    ----------
    folder : Path
        The run's folder, where the supervisor sees that the run has heard.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.heard, self.held, self.late = folder, False, False, False

    def __call__(self, *_: Any) -> None:
        """Handle the signal."""
        self.saves()
        if self.held:
            self.late = True
            return
        # paths and folds keep what is done after Ctrl-C
        raise KeyboardInterrupt

    def saves(self) -> None:
        """The run has heard and writes what it has; the time allowed for that begins now."""
        self.heard = True
        self._mark()

    def _mark(self) -> None:
        with contextlib.suppress(OSError):
            (self.folder / SAVING).touch()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Interrupt what is written here only afterwards."""
        self.held = True
        self._mark()
        try:
            yield
        finally:
            self.held = False
            if not self.heard:
                (self.folder / SAVING).unlink(missing_ok=True)
        if self.late:
            self.late = False
            raise KeyboardInterrupt


class Job:
    """The steps of a run.

    Parameters
    ----------
    places : Places
    store : Store
    run_id : str
    stopping : Stopping
    """

    def __init__(self, places: Places, store: Store, run_id: str, stopping: Stopping) -> None:
        self.places, self.store, self.run_id, self.stopping = places, store, run_id, stopping
        self.folder = places.run(run_id)
        self.remarks: list[str] = []

    def do(self) -> None:
        """Read, fit, score, write."""
        from kernelweave_app.runs.columns import describe
        from kernelweave_app.runs.evidence import gather
        from kernelweave_app.runs.fitting import calibrate_model, fit_model, make_model
        from kernelweave_app.runs.nested import nested_predictions
        from kernelweave_app.runs.writing import score_held, write_report, write_run
        from kernelweave_app.studio.results import describe_model

        begin = time.monotonic()
        run = read_asked(self.store, self.run_id)
        spec, prepared, train, test = run.spec, run.prepared, run.train, run.test
        model = make_model(spec, prepared, test)
        self._tell(f"Read {describe(run.data.table)}. {prepared.task}: {prepared.reason}.")
        if prepared.division is None:
            self._tell(f"{numbered(len(train), 'row')} to learn from, {len(test)} held out.")
        else:
            self._tell(f"{prepared.division.said}.")
        self._note_kernels(model, prepared.X.iloc[train])
        outputs = self._outputs(prepared, train)
        steps = count_steps(spec, max(1, len(outputs)), prepared.task)
        progress = Progress(self.store, self.run_id, steps, outputs, self.stopping.saves)
        progress.flush("reading is done")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            began = time.monotonic()
            fit_model(model, prepared, train, progress)
            fit_seconds = time.monotonic() - began
            self._remark(caught)
        kept = progress.stopped
        # before anything else that takes time: whatever comes, the model is there
        self._save(model)
        if kept and spec.probabilities != "none":
            self.remarks.append("Stopped before probabilities were learnt.")
        elif spec.probabilities != "none":
            calibrate_model(model, spec, prepared, train)
            self._save(model)
        self._renew()
        held = score_held(model, prepared, test)
        self._keep_scores(model, held)
        # the files first, so that an error in what is shown cannot lose the model
        portable = replace(run, spec=self._portable(spec, run.paths))
        write_run(self.folder, portable, model, held)
        self._list_files()
        found = [] if kept else self._paths(model, progress)
        outer: list[HeldOut] | HeldTimes = []
        if not progress.stopped and (spec.nested or spec.survival):
            progress.draws, progress.stage = False, "nested"
            try:
                outer = nested_predictions(spec, prepared, train, progress, lambda _: progress.stopped)
            except KeyboardInterrupt:
                self.remarks.append("Stopped during nested cross-validation.")
            every = [outer] if isinstance(outer, HeldTimes) else outer
            self._keep(every, "out of fold" if spec.survival else "nested")
        progress.end("writing")
        self._renew()
        pictures = self._pictures(model, held, prepared.X.iloc[train], found)
        evidence = gather(model, spec, prepared, (train, test), held, outer)
        title = self.store.run(self.run_id)["name"]
        write_report(self.folder, portable, model, held, evidence, title=title, pictures=pictures)
        self._list_files()
        results = describe_model(model, spec, prepared, (train, test), held, found, self.remarks)
        (self.folder / RESULTS).write_text(results.model_dump_json(), encoding="utf8")
        summary = {
            "task": prepared.task,
            "method": results.method,
            "n_kernels": int(model.n_kernels_),
            "n_active": len(results.weights.names),
            "regularization": results.certificate.regularization,
            "rel_gap": float(model.rel_gap_),
            "status": str(model.status_),
            "n_training": len(train),
            "n_held": len(test),
            "seconds": time.monotonic() - begin,
            "fit_seconds": fit_seconds,
        }
        if progress.stopped:
            reason = "Stopped on request; what was finished is kept."
            self.store.finish(self.run_id, "cancelled", reason, summary)
        else:
            self._tell("Finished.")
            self.store.finish(self.run_id, "done", "", summary)

    # ---- steps ------------------------------------------------------------------------------------

    def _save(self, model: BaseMKL) -> None:
        """Write and record the model, which nothing interrupts."""
        from kernelweave.persistence import save
        from kernelweave_app.runs.folders import writing

        with self.stopping.hold():
            with writing():
                save(model, self.folder / MODEL, training_rows=True)
            self._list_file(MODEL, FILES[MODEL][0])
            self._tell("The model is written.")

    def _renew(self) -> None:
        """Of a run that was asked to stop, the time to write what it has begins anew."""
        if self.stopping.heard or self.store.is_cancelled(self.run_id):
            self.stopping.saves()

    def _tell(self, text: str) -> None:
        print(text, flush=True)
        with contextlib.suppress(DiskFull):
            self.store.add_event(self.run_id, text)

    def _remark(self, caught: list[warnings.WarningMessage]) -> None:
        for text in dict.fromkeys(str(w.message) for w in caught):
            self.remarks.append(text)
            self._tell(text)

    def _note_kernels(self, model: BaseMKL, X: DataFrame) -> None:
        from sklearn.base import is_regressor

        from kernelweave_app.runs.kernels_of import known_kernels

        bank = known_kernels(model.kernels, X, "regression" if is_regressor(model) else "classification")
        text = json.dumps([kernel.label for kernel in bank])
        (self.folder / KERNELS).write_text(text, encoding="utf8")
        self._tell(f"{numbered(len(bank), 'kernel')}.")

    @staticmethod
    def _outputs(prepared: Prepared, rows: Rows) -> list[str]:
        """Classes with a problem of their own; none for two classes and for regressions."""
        import numpy as np

        if prepared.task != "classification":
            return []
        found = [str(name) for name in np.unique(prepared.y[rows])]
        return found if len(found) > 2 else []

    def _paths(self, model: BaseMKL, progress: Any) -> list[inspection.Path]:
        """The path on all training rows, for every output that has one of its own."""
        from kernelweave.inspection import regularization_path
        from kernelweave_app.studio.results import is_deep

        outputs: list[str | None] = [None]
        if model.weights_.ndim == 2 and hasattr(model, "classes_") and not is_deep(model):
            outputs = [*(str(c) for c in model.classes_[:MOST_PATHS])]
        found: list[inspection.Path] = []
        for output in outputs:
            progress.stage = f"class {output}" if output is not None else ""
            progress.output = output or ""
            try:
                found.append(regularization_path(model, output=output, report=progress.report))
            except KeyboardInterrupt:
                break
            except Exception as error:
                # the model is kept even if its path cannot be computed
                traceback.print_exc()
                self.remarks.append(f"There is no path: {error}")
                break
            if progress.stopped:
                break
        progress.stage = progress.output = ""
        return found

    def _keep_scores(self, model: BaseMKL, held: HeldOut | HeldTimes | None) -> None:
        self._keep([held] if held else [], "held out")
        results = getattr(model, "cv_results_", None)
        if results is not None:
            name = f"{results['score_name']}, {not_an_estimate(EITHER)}"
            value = float(results["test_score"][model.best_index_])
            n = int(model.model_.task.source.n_samples)
            self.store.write(self.run_id, Metric(name=name, value=value, n=n))

    def _keep(self, held: Sequence[HeldOut | HeldTimes], where: str) -> None:
        """Scores of rows that models had not seen, with their intervals."""
        for name, one in intervals_of(*held).items():
            value, low, high = one.cells
            if name in held[0].scores and value is not None:
                score = Metric(name=f"{name}, {where}", value=value, low=low, high=high, n=one.n)
                self.store.write(self.run_id, score)

    def _pictures(
        self, model: BaseMKL, held: HeldOut | HeldTimes | None, X: DataFrame, found: list[inspection.Path]
    ) -> list[Picture]:
        from kernelweave_app.reports import draw_pictures

        try:
            pictures = draw_pictures(model, held, X, found[0] if found else None, with_path=bool(found))
        except Exception as error:
            traceback.print_exc()
            self.remarks.append(f"The figures could not be drawn: {error}")
            return []
        (self.folder / "figures").mkdir(exist_ok=True)
        for picture in pictures:
            (self.folder / "figures" / f"{picture.name}.svg").write_text(picture.svg, encoding="utf8")
            picture.write_pdf(self.folder / "figures" / f"{picture.name}.pdf")
        return pictures

    @staticmethod
    def _portable(spec: Spec, paths: dict[str, str]) -> Spec:
        """Settings for a command line: with the files of further tables, and sparse tables as columns."""
        from kernelweave_app.runs.formats import format_of

        first, *others = paths.values()
        return spec.model_copy(
            update={"join": others, "dense": not others and "sparse" in format_of(first).uses(Path(first))}
        )

    def _list_files(self) -> None:
        for name in FILES:
            if (self.folder / name).exists():
                self._list_file(name, FILES[name][0])
        for path in sorted((self.folder / "figures").glob("*")):
            self._list_file(f"figures/{path.name}", "figure")

    def _list_file(self, name: str, kind: str) -> None:
        size = (self.folder / name).stat().st_size
        self.store.write(self.run_id, Artifact(name=name, kind=kind, size=size))


def count_steps(spec: Spec, n_outputs: int, task: str) -> int:
    """Steps of a whole run: each regularisation parameter on each fold, on all rows, again for the path, and nested."""
    from kernelweave_app.runs.fitting import count_alphas

    n_alphas, n_folds = count_alphas(spec, task)
    one = n_outputs * n_alphas * (n_folds + 1)
    if spec.survival:
        return one * (1 + 2 * spec.cv) + n_alphas
    return one * (1 + spec.nested) + n_alphas * min(n_outputs, MOST_PATHS)


#: Seconds between two writes of progress, and between two looks at others.
EVERY_PROOF = 0.3


class Proving:
    """One kind of evidence about a run.

    Parameters
    ----------
    places : Places
    run_id, kind : str
    """

    def __init__(self, places: Places, run_id: str, kind: str) -> None:
        self.places, self.run_id, self.kind = places, run_id, kind
        self.folder = places.run(run_id)
        self.done, self.heard, self.last = 0, False, 0.0

    def tell(self, **values: object) -> None:
        """Write how far it is."""
        write_status(self.folder, self.kind, **values)

    def asked(self) -> Tree:
        """What was asked for, and how far it is."""
        return read_status(status_file(self.folder, self.kind))

    def stopped(self) -> bool:
        """Whether the process was asked to stop, or the run is gone."""
        self.heard = self.heard or stop_file(self.folder, self.kind).exists() or not self.folder.exists()
        return self.heard

    def report(self, text: str) -> bool:
        """Record a finished step; returns whether to stop."""
        self.done += 1
        if time.monotonic() - self.last > EVERY_PROOF:
            self.last = time.monotonic()
            total = total_of(text)
            self.tell(done=self.done, text=text, **({} if total is None else {"total": total}))
        return self.stopped()

    def do(self) -> None:
        """Read the run, compute, and add to its evidence."""
        from kernelweave.persistence import load
        from kernelweave_app.runs.lineage import read_lineage
        from kernelweave_app.runs.writing import score_held

        store = Store(self.places.database)
        run = read_asked(store, self.run_id, read_lineage(self.folder))
        model, status = load(self.folder / MODEL), self.asked()
        held = score_held(model, run.prepared, run.test)
        how: Tree = {name: status[name] for name in ("count", "refit", "max_false") if name in status}
        rows = run.train, run.test
        basis = basis_of(model, run.spec, run.prepared, rows, held, report=self.report, **how)
        found = compute(self.kind, basis)
        # read again: another kind may have been added meanwhile
        write_evidence(self.folder, {**read_evidence(self.folder), self.kind: found})
        size = (self.folder / EVIDENCE).stat().st_size
        store.write(self.run_id, Artifact(name=EVIDENCE, kind="results", size=size))
        self.tell(done=self.done)


def compute_evidence(root: str, run_id: str, kind: str) -> int:
    """Compute a kind of evidence, and record how it ended."""
    places = Places(Path(root))
    job = Proving(places, run_id, kind)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    job.tell(pid=os.getpid(), pid_started=own_start(), state="waiting")
    try:
        while other_pids(places, job.asked()["created"]):
            if job.stopped():
                raise KeyboardInterrupt
            time.sleep(EVERY_PROOF)
        job.tell(state="running", begun=time.time())
        job.do()
        job.tell(state="done", reason="Stopped; what was done is kept." if job.heard else "")
    except KeyboardInterrupt:
        job.tell(state="cancelled", reason="Stopped before anything was done.")
    except BaseException as error:
        if not job.folder.exists():
            return 1  # the run was deleted
        with contextlib.suppress(OSError):
            job.tell(state="failed", reason=_why(error, places))
        return 1
    finally:
        stop_file(job.folder, kind).unlink(missing_ok=True)
    return 0


def draw_figure(folder: Path, name: str) -> Picture:
    """Draw a figure from the files of a run: of its evidence, its results, its model and its held-out rows."""
    from kernelweave import plots
    from kernelweave.persistence import load
    from kernelweave_app.reports import Picture, draw_pictures
    from kernelweave_app.reports.figures import draw_findings

    for picture in draw_findings(read_evidence(folder), name):
        return picture
    results = Results.model_validate_json((folder / RESULTS).read_bytes(), extra="ignore")
    if name == "contributions" and results.contributions is not None:
        parts = results.contributions
        # of every output and kernel over the rows of the page, the largest first
        sizes = np.array(parts.values).std(axis=1).T
        order = np.argsort(-sizes.sum(axis=1), kind="stable")
        order = order[sizes[order].sum(axis=1) > 0]
        one, names = sizes.shape[1] == 1, [parts.kernels[m] for m in order]
        shown = sizes[order, 0] if one else sizes[order]
        display: Any = plots.KernelContributionsDisplay(names, shown, ("",) if one else parts.outputs)
        return Picture(name, name, display.plot().figure_)
    if name == "path" and results.paths:
        path = results.paths[0]
        df = np.array([np.nan if v is None else v for v in path.df])
        lines = np.array(path.alphas), df, np.array(path.weights), path.names, path.chosen
        display = plots.RegularizationPathDisplay(*lines, "kernel weight (fraction)", path.parameter)
        return Picture(name, name, display.plot().figure_)
    model = load(folder / MODEL)
    # of survival only findings draw held-out rows
    read = results.held is not None and results.task != SURVIVAL
    held = _read_held(folder, model, results.task) if read else None
    # of classes, held-out rows are drawn as a confusion matrix
    named = "held-out" if name == "confusion" and results.task == "classification" else name
    for picture in draw_pictures(model, held, with_path=False, only=named):
        return picture
    raise InputError(f"This figure could not be drawn: this run has no figure {name}.")


def _read_held(folder: Path, model: BaseMKL, task: str) -> HeldOut:
    """Held-out rows, from the file of predictions."""
    import pandas as pd

    from kernelweave.inspection.held import HeldOut

    names = target_names(model)
    kinds = {"truth": str, "prediction": str} if task == "classification" and not names else None
    table = pd.read_csv(folder / "predictions.csv", dtype=kinds, keep_default_na=not kinds)
    truth = table[[f"truth {name}" for name in names]] if names else table["truth"]
    return HeldOut.of_columns(model, table, truth.to_numpy())


def print_figure(folder: str, name: str, width: float, kind: str) -> Tree:
    """Draw one figure and write it."""
    from kernelweave_app.reports.printing import write_figures

    out = Path(folder) / PRINTED
    out.mkdir(exist_ok=True)
    (made,) = write_figures(lambda: [draw_figure(Path(folder), name)], out, width, (kind,))
    file = f"{name}-{width:g}mm.{kind}"
    (out / made).replace(out / file)
    return {"file": file}


def measure(spec: Tree, paths: dict[str, str]) -> Tree:
    """Estimate time and memory of a run on few of its rows."""
    from kernelweave_app.runs.estimating import estimate_fit
    from kernelweave_app.runs.preparing import prepare
    from kernelweave_app.runs.reading import read_all

    asked = Spec(**spec)
    found = estimate_fit(asked, prepare(read_all(paths, asked), asked))
    told = {"seconds": found.seconds, "low": found.low, "high": found.high, "memory": found.memory}
    return {**told, "sure": found.sure()}


#: Tasks that write their progress, and tasks that answer.
TASKS: dict[str, Callable[..., int]] = {"run": execute_run, "evidence": compute_evidence}
ANSWERS: dict[str, Callable[..., Tree]] = {"measure": measure, "print": print_figure}


def main(task: str, *arguments: str) -> int:
    """Do a task; one that answers reads its arguments on standard input."""
    load_extensions()
    if task in TASKS:
        return TASKS[task](*arguments)
    try:
        answer = ANSWERS[task](**json.load(sys.stdin))
    except (InputError, OSError) as error:
        answer = {"problem": str(error)}
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
