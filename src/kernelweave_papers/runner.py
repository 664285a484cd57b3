"""Run the cells of an experiment: in parallel, one BLAS thread each, resumable."""

from __future__ import annotations

import os
import platform
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass

import joblib
from threadpoolctl import threadpool_limits

from kernelweave._errors import InputError
from kernelweave._interrupts import interrupts_noticed
from kernelweave_papers.base import USUAL, Cell, Experiment, Options, Result, cell_key
from kernelweave_papers.store import Store

#: Called after every cell with the number of cells that this call has ended, and the estimated seconds left.
Report = Callable[[int, float], object]
#: Seconds of work that declared costs count for, beside measured ones.
TRUSTED = 2.0


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


class Estimate:
    """Seconds that the open cells of a run take.

    Declared costs (`Experiment.costs`, in proportion to the rows) are multiplied by the ratio of measured to declared
    seconds, over all finished cells and then over those of each kind.

    Parameters
    ----------
    experiment : Experiment
    cells : list of Cell
        All of them.
    finished : list of (cell, seconds)
        Cells of earlier calls, in seconds of the processor.
    n_jobs : int
    """

    def __init__(
        self, experiment: Experiment, cells: list[Cell], finished: list[tuple[Cell, float]], n_jobs: int
    ) -> None:
        self.experiment, self.n_jobs = experiment, joblib.effective_n_jobs(n_jobs)
        self.open, self.declared, self.measured = (defaultdict[str, float](float) for _ in range(3))
        self.busy = 0.0
        for cell in cells:
            self.open[experiment.kind(cell)] += self.cost(cell)
        for cell, seconds in finished:
            self.add(cell, seconds)
        self.busy = 0.0

    def cost(self, cell: Cell) -> float:
        """Declared seconds."""
        return self.experiment.costs.get(self.experiment.kind(cell), 1.0) * self.experiment.rows(cell) / USUAL

    def add(self, cell: Cell, seconds: float) -> None:
        """A cell has ended."""
        kind, cost = self.experiment.kind(cell), self.cost(cell)
        self.open[kind] -= cost
        self.declared[kind] += cost
        self.measured[kind] += seconds
        self.busy += seconds

    def left(self, elapsed: float) -> float:
        """Seconds left, of which `elapsed` have passed since the first cell of this call."""
        ratio = (sum(self.measured.values()) + TRUSTED) / (sum(self.declared.values()) + TRUSTED)
        work = sum(
            cost * (self.measured[kind] + TRUSTED * ratio) / (self.declared[kind] + TRUSTED)
            for kind, cost in self.open.items()
        )
        # other programs, and waiting for processes
        slower = (elapsed * self.n_jobs + TRUSTED) / (self.busy + TRUSTED)
        return max(work, 0.0) * max(slower, 1.0) / self.n_jobs


def open_cells(experiment: Experiment, options: Options, store: Store) -> list[Cell]:
    """Cells that are not finished yet."""
    done = store.done()
    return [cell for cell in experiment.cells(options) if cell_key(cell) not in done]


def run_cells(
    experiment: Experiment,
    options: Options,
    store: Store,
    *,
    n_jobs: int = 1,
    report: Report | None = None,
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
        Called after every cell, see `Report`.

    Returns
    -------
    Outcome
        After Ctrl-C, of what was finished.
    """
    cells = experiment.cells(options)
    waiting = open_cells(experiment, options, store)
    estimate = Estimate(experiment, cells, store.seconds(cells), n_jobs)
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
            estimate.add(cell, seconds)
            if report is not None:
                report(new + failed, estimate.left(time.monotonic() - started))
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
        with threadpool_limits(1), warnings.catch_warnings(), interrupts_noticed() as interrupted:
            # warnings would repeat thousands of times; results contain gaps and counts of failures
            warnings.simplefilter("ignore")
            result = experiment.run(cell, options)
        if interrupted():
            # a descent keeps what it has and goes on, which is no result of the experiment
            raise KeyboardInterrupt
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
