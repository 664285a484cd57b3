"""One run, in a separate process: ``python -m kernelweave_app.studio.worker DATA_FOLDER RUN_ID``.

It reads its request from the store and writes its progress there, so that neither the page nor the server need to stay
open.
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
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from kernelweave._errors import InputError
from kernelweave._forms import numbered
from kernelweave._types import DataFrame
from kernelweave_app.runs.evidence import EVIDENCE
from kernelweave_app.studio.disk import DiskFull, describe_full, is_full
from kernelweave_app.studio.places import MODEL, SAVING, Places
from kernelweave_app.studio.store import KEPT, Store

if TYPE_CHECKING:
    from kernelweave import inspection
    from kernelweave.estimators.base import BaseMKL
    from kernelweave_app.reports import Held, Picture
    from kernelweave_app.runs.preparing import Prepared, Rows
    from kernelweave_app.runs.spec import FitSpec

#: File in a run's folder with everything that the pages show.
RESULTS = "results.json"
#: Kernel names, written before the first weights.
KERNELS = "kernels.json"
#: With more classes than this, only the first ones have their own path.
MOST_PATHS = 10


def main(folder: str, run_id: str) -> int:
    """Execute a run and record how it ended."""
    faulthandler.enable()
    places = Places(Path(folder))
    store = Store(places.database)
    pid = os.getpid()
    started = {"pid": pid, "pid_started": psutil.Process(pid).create_time(), "started": time.time()}
    if not store.move(run_id, ("starting",), "running", **started):
        print(f"Run {run_id} is not in the queue.", flush=True)
        return 1
    stopping = Stopping(places.run(run_id))
    signal.signal(signal.SIGTERM, stopping)
    try:
        store.add_event(run_id, f"Started as process {pid}.")
        Job(places, store, run_id, stopping).do()
    except KeyboardInterrupt:
        reason = "Stopped before a model was complete; nothing could be kept."
        _finish(store, run_id, "cancelled", KEPT if store.artifacts(run_id) else reason)
        return 0
    except InputError as error:
        print(error, flush=True)
        _finish(store, run_id, "failed", str(error))
    except MemoryError:
        traceback.print_exc()
        _finish(store, run_id, "failed", "Out of memory. Use fewer rows or kernels, or a smaller max_memory.")
    except BaseException as error:
        traceback.print_exc()
        reason = describe_full(places.root) if is_full(error) else ""
        _finish(
            store, run_id, "failed", reason or f"{type(error).__name__}: {str(error) or 'no reason given'}"
        )
    else:
        return 0
    return 1


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
        from kernelweave_app.runs.evidence import gather
        from kernelweave_app.runs.fitting import calibrate_model, fit_model, make_model
        from kernelweave_app.runs.further import read_all
        from kernelweave_app.runs.lineage import trace
        from kernelweave_app.runs.nested import nested_scores, say_nested
        from kernelweave_app.runs.preparing import prepare, split
        from kernelweave_app.runs.spec import FitSpec
        from kernelweave_app.runs.tables import describe
        from kernelweave_app.runs.writing import score_held, write_report, write_run
        from kernelweave_app.studio.progress import Progress
        from kernelweave_app.studio.results import describe_model

        begin = time.monotonic()
        row = self.store.run(self.run_id)
        request = json.loads(row["request"])
        spec = FitSpec(**{**request["spec"], **request.get("files", {})})
        paths: dict[str, str] = request["paths"]
        data = read_all(paths, spec)
        origin = trace(paths, spec)
        prepared = prepare(data, spec)
        train, test = rows = split(prepared, spec)
        model = make_model(spec, prepared, test)
        self._tell(f"Read {describe(data.table)}. {prepared.task}: {prepared.reason}.")
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
            fit_model(model, prepared, train, progress)
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
        portable = self._portable(spec, paths)
        write_run(self.folder, model, portable, data, prepared, paths, held, origin)
        self._list_files()
        found = [] if kept else self._paths(model, progress)
        outer: list[dict[str, float]] = []
        if not progress.stopped and spec.nested:
            progress.draws, progress.stage = False, "nested"
            try:
                outer = nested_scores(spec, prepared, train, progress, lambda _: progress.stopped)
            except KeyboardInterrupt:
                self.remarks.append("Stopped during nested cross-validation.")
            self._keep_nested(outer)
        progress.end("writing")
        self._renew()
        pictures = self._pictures(model, held, prepared.X.iloc[train], found)
        about = say_nested(outer) if outer else ""
        evidence = gather(model, prepared, held, outer)
        write_report(
            self.folder,
            model,
            portable,
            data,
            prepared,
            paths,
            rows,
            held,
            about,
            row["name"],
            pictures,
            evidence,
            origin,
        )
        self._list_files()
        results = describe_model(model, spec, prepared, rows, held, found, outer, self.remarks, evidence)
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
                path = save(model, self.folder / MODEL)
            self.store.add_artifact(self.run_id, MODEL, "model", path.stat().st_size)
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

        if prepared.task == "regression":
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

    def _keep_scores(self, model: BaseMKL, held: Held | None) -> None:
        results = getattr(model, "cv_results_", None)
        if results is not None:
            best = model.best_index_
            self.store.add_metric(
                self.run_id,
                f"{results['score_name']}, folds",
                float(results["mean_test_score"][best]),
                float(results["std_error_test_score"][best]),
            )
        if held is not None:
            for name, value in held.scores.items():
                if value == value:
                    self.store.add_metric(self.run_id, f"{name}, held out", float(value))

    def _keep_nested(self, outer: list[dict[str, float]]) -> None:
        import numpy as np

        for name in outer[0] if outer else ():
            values = np.array([fold[name] for fold in outer if name in fold])
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            self.store.add_metric(self.run_id, f"{name}, nested", float(values.mean()), spread)

    def _pictures(
        self, model: BaseMKL, held: Held | None, X: DataFrame, found: list[inspection.Path]
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
    def _portable(spec: FitSpec, paths: dict[str, str]) -> FitSpec:
        """Settings for a command line: with the files of further tables, and sparse tables as columns."""
        from kernelweave_app.runs.sparse_files import is_sparse_file

        first, *others = paths.values()
        return spec.model_copy(update={"join": others, "dense": not others and is_sparse_file(first)})

    def _list_files(self) -> None:
        kinds = {
            MODEL: "model",
            "report.html": "report",
            "predictions.csv": "predictions",
            "spec.toml": "settings",
            "script.py": "script",
            "tables.json": "settings",
            EVIDENCE: "results",
            "lineage.json": "settings",
            "grams.json": "settings",
        }
        for name, kind in kinds.items():
            path = self.folder / name
            if path.exists():
                self.store.add_artifact(self.run_id, name, kind, path.stat().st_size)
        for path in sorted((self.folder / "figures").glob("*")):
            self.store.add_artifact(self.run_id, f"figures/{path.name}", "figure", path.stat().st_size)


def count_steps(spec: FitSpec, n_outputs: int, task: str) -> int:
    """Steps of a whole run: each regularisation parameter on each fold, on all rows, again for the path, and nested."""
    from kernelweave_app.runs.fitting import count_alphas

    n_alphas, n_folds = count_alphas(spec, task)
    one = n_outputs * n_alphas * (n_folds + 1)
    return one * (1 + spec.nested) + n_alphas * min(n_outputs, MOST_PATHS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
