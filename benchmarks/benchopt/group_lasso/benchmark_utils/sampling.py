"""One curve for each solver: its own tolerance falls tenfold, until the gap is small or there are no digits left."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchopt.stopping_criterion import StoppingCriterion


class Gap(StoppingCriterion):
    """Stops at a gap of `target`, or after the tolerance `least`."""

    def __init__(
        self,
        target: float = 1e-9,
        least: float = 1e-12,
        strategy: Any = None,
        key_to_monitor: Any = "gap",
        **more: Any,
    ) -> None:
        self.target, self.least, self._runs = target, least, 0
        super().__init__(target=target, least=least, strategy=strategy, key_to_monitor=key_to_monitor, **more)

    def check_convergence(self, objective_list: list[dict[str, Any]]) -> tuple[bool, float]:
        last = objective_list[-1]
        return last["objective_gap"] <= self.target or last["stop_val"] <= self.least, 0.0


def tenth(tol: float) -> float:
    """The tolerance after this one; the first is 0.1."""
    return 0.1 if tol > 1.0 else tol / 10.0


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and the processor seconds that it took."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start
