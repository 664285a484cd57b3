"""scikit-learn's callbacks (experimental in 1.9), behind one module.

Estimators that inherit `ReportingMixin` report every finished step of a fit as a subtask; a callback whose
``on_fit_task_end`` returns True stops the fit, which keeps what is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.callback import CallbackSupportMixin, with_callbacks

__all__ = ["ReportingMixin", "with_callbacks"]


class ReportingMixin(CallbackSupportMixin):
    """Turns progress reports into callback subtasks."""

    def _reporter(self, n_steps: int | None, X: Any, y: Any) -> Callable[[str], bool]:
        """Return a function that reports one finished step and tells whether to stop."""
        context = self._init_callback_context(max_subtasks=n_steps)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        if not getattr(self, "_skl_callbacks", None):
            return lambda _: False

        def report(text: str) -> bool:
            step = context.subcontext(task_name=text)
            step.call_on_fit_task_begin(estimator=self)
            return bool(step.call_on_fit_task_end(estimator=self))

        return report

    def _reported(self) -> None:
        """End the fit's own task."""
        self._callback_fit_ctx.call_on_fit_task_end(estimator=self)
