"""Run the cells of an experiment: in parallel, one BLAS thread each, resumable."""

from __future__ import annotations

import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass

import joblib
from threadpoolctl import threadpool_limits

from kernelweave._errors import InputError
from kernelweave_papers.base import Cell, Experiment, Options, Result, cell_key
from kernelweave_papers.store import Store

#: Called after every cell.
Report = Callable[[], object]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    n_cells, n_done, n_failed, n_new : int
        All cells, finished ones, failed ones, and those finished by this call.
    interrupted : bool
    seconds : float
    """

    n_cells: int
    n_done: int
    n_failed: int
    n_new: int
    interrupted: bool
    seconds: float


def open_cells(experiment: Experiment, options: Options, store: Store) -> list[Cell]:
    """Cells that are not finished yet."""
    done = store.done()
    return [cell for cell in experiment.cells(options) if cell_key(cell) not in done]


def run_cells(
    experiment: Experiment, options: Options, store: Store, *, n_jobs: int = 1, report: Report = lambda: None
) -> Outcome:
    """Compute all open cells and store each as soon as it is finished.

    Parameters
    ----------
    experiment : Experiment
    options : Options
    store : Store
    n_jobs : int, default=1
        Processes; -1 for one per core.
    report : callable
        Called after every cell.

    Returns
    -------
    Outcome
        After Ctrl-C, of what was finished.
    """
    cells = experiment.cells(options)
    waiting = open_cells(experiment, options, store)
    started = time.monotonic()
    new = failed = 0
    interrupted = False
    answers = _compute(experiment, options, waiting, n_jobs)
    try:
        for cell, result, seconds, log in answers:
            if log:
                failed += 1
                store.fail(cell, log.strip().splitlines()[-1], log)
            else:
                new += 1
                store.add(cell, result, seconds)
            report()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        answers.close()
    return Outcome(
        n_cells=len(cells),
        n_done=len(cells) - len(open_cells(experiment, options, store)),
        n_failed=failed,
        n_new=new,
        interrupted=interrupted,
        seconds=time.monotonic() - started,
    )


Answer = tuple[Cell, Result, float, str]


def _compute(
    experiment: Experiment, options: Options, cells: list[Cell], n_jobs: int
) -> Generator[Answer, None, None]:
    if n_jobs == 1:
        for cell in cells:
            yield _one(experiment, options, cell)
        return
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_one)(experiment, options, cell) for cell in cells)


def _one(experiment: Experiment, options: Options, cell: Cell) -> Answer:
    # processor time: other programs on the computer do not count
    started = time.process_time()
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            # warnings would repeat thousands of times; results contain gaps and counts of failures
            warnings.simplefilter("ignore")
            result = experiment.run(cell, options)
    except InputError as error:
        return cell, {}, time.process_time() - started, str(error)
    except Exception:
        return cell, {}, time.process_time() - started, traceback.format_exc()
    return cell, result, time.process_time() - started, ""


def environment() -> dict[str, object]:
    """Versions and hardware of the results."""
    import numpy
    import scipy
    import sklearn

    import kernelweave
    from kernelweave._loops import HAS_EXTENSION

    return {
        "kernelweave": kernelweave.__version__,
        "compiled": HAS_EXTENSION,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
