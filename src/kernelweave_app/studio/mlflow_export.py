"""Finished runs in an MLflow file store: parameters, scores, tags and files. MLflow is optional."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from kernelweave._errors import InputError
from kernelweave_app.runs.lineage import Lineage
from kernelweave_app.runs.settings import effective
from kernelweave_app.studio.schema import Run

#: Name of the experiment that all runs are put into.
EXPERIMENT = "kernelweave"
#: Tag of MLflow's runs with the id of the studio's, so that a second export replaces the first one.
TAG = "kernelweave.run"
#: Characters of a value that MLflow keeps.
LONGEST = 500
STATUS = {"done": "FINISHED", "cancelled": "KILLED", "failed": "FAILED"}


def export_run(folder: Path, run: Run, where: Path, files: Sequence[Path], lineage: Lineage | None) -> str:
    """Write a run to a file store.

    Parameters
    ----------
    folder : Path
        Of the store; made if it is not there.
    run : Run
        One that has ended.
    where : Path
        Folder of the run.
    files : sequence of Path
        Files of the run, in that folder.
    lineage : Lineage or None

    Returns
    -------
    str
        The id of the run in MLflow.

    Raises
    ------
    InputError
        If MLflow is not installed, or the folder cannot be written.
    """
    # later versions refuse a folder of files unless this is set; databases need more than mlflow-skinny
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from mlflow.entities import Metric, Param, RunTag
            from mlflow.exceptions import MlflowException
            from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise InputError(
            f"The export needs MLflow: pip install mlflow-skinny ({error}). Then start the studio again."
        ) from error
    if run.state not in STATUS:
        raise InputError("This run has not ended.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folder.mkdir(parents=True, exist_ok=True)
            client = MlflowClient(tracking_uri=folder.resolve().as_uri())
            known = client.get_experiment_by_name(EXPERIMENT)
            experiment = known.experiment_id if known is not None else client.create_experiment(EXPERIMENT)
            for old in client.search_runs([experiment], filter_string=f"tags.`{TAG}` = '{run.id}'"):
                client.delete_run(old.info.run_id)
            begun = int(1000 * (run.started or run.created))
            made = client.create_run(experiment, start_time=begun, run_name=run.name[:LONGEST])
            now = int(1000 * (run.finished or time.time()))
            client.log_batch(
                made.info.run_id,
                metrics=[
                    Metric(_key(name), value, now, 0)
                    for name, value in _scores(run).items()
                    if value is not None
                ],
                params=[Param(_key(name), value[:LONGEST]) for name, value in _params(run).items()],
                tags=[RunTag(name, value[:5000]) for name, value in _tags(run, lineage).items()],
            )
            for file in files:
                inside = file.parent.relative_to(where).as_posix()
                client.log_artifact(made.info.run_id, str(file), None if inside == "." else inside)
            client.set_terminated(made.info.run_id, STATUS[run.state], end_time=now)
    except OSError as error:
        raise InputError(f"MLflow's folder {folder} cannot be written: {error.strerror or error}.") from error
    except MlflowException as error:
        raise InputError(f"MLflow refuses the run: {' '.join(str(error).split()):.300}") from error
    return str(made.info.run_id)


def _scores(run: Run) -> dict[str, float | None]:
    found = {metric.name: metric.value for metric in run.metrics}
    found |= {
        f"{metric.name}, {end}": getattr(metric, end) for metric in run.metrics for end in ("low", "high")
    }
    if run.summary is not None:
        found |= {"kernels with a weight": float(run.summary.n_active), "seconds": run.summary.seconds}
        found["relative gap"] = run.summary.rel_gap
    return found


def _params(run: Run) -> dict[str, str]:
    spec = run.request.spec
    given = {
        name: str(value) for name, value in spec.model_dump(exclude={"learner_params", "method"}).items()
    }
    given = {name: value for name, value in given.items() if value not in ("", "[]", "{}")}
    return {"method": run.method, **given, **effective(run.method, spec.learner_params)}


def _tags(run: Run, lineage: Lineage | None) -> dict[str, str]:
    found = {TAG: run.id, "mlflow.note.content": run.marks.note}
    found |= {f"tag {k}": tag for k, tag in enumerate(run.marks.tags, start=1)}
    if lineage is not None:
        found |= {f"version {name}": value for name, value in lineage.versions.items()}
        found |= {f"sha256 {k}": f"{one.sha256} {one.name}" for k, one in enumerate(lineage.tables, start=1)}
        found["command"] = lineage.command
    return {
        _key(name) if not name.startswith(("mlflow.", TAG)) else name: value
        for name, value in found.items()
        if value
    }


def _key(name: str) -> str:
    """A name that MLflow accepts: letters, digits and a few signs."""
    kept = "".join(c if c.isalnum() or c in "_-. /" else " " for c in name)
    return " ".join(kept.split())[:250]
