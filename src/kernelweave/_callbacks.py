"""scikit-learn's callbacks (experimental in 1.9), and a replacement for earlier versions.

Estimators that inherit `ReportingMixin` report every finished step of a fit as a subtask; a callback whose
``on_fit_task_end`` returns True stops the fit, which keeps the finished part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

__all__ = ["CallbackContext", "ReportingMixin", "with_callbacks"]


class CallbackContext(Protocol):
    """The interface of the task that begins or ends, for callbacks."""

    task_name: str
    max_subtasks: int | None
    parent: CallbackContext | None


try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9: the same calls in the same order, for a single estimator

    @dataclass(frozen=True)
    class _Context:
        """A task of a fit, as passed to callbacks."""

        callbacks: tuple[Any, ...]
        task_name: str = "fit"
        max_subtasks: int | None = 0
        parent: Any = None

        def subcontext(self, *, task_name: str) -> _Context:
            return _Context(self.callbacks, task_name, parent=self)

        def call_on_fit_task_begin(self, *, estimator: Any, **_: Any) -> None:
            for callback in self.callbacks:
                callback.on_fit_task_begin(estimator, self)

        def call_on_fit_task_end(self, *, estimator: Any) -> bool:
            return any([callback.on_fit_task_end(estimator, self) for callback in self.callbacks])

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Callbacks of an estimator."""

        _skl_callbacks: tuple[Any, ...] = ()

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Set callbacks for the steps of a fit, see scikit-learn's `FitCallback`."""
            self._skl_callbacks = callbacks
            return self

        def _init_callback_context(self, *, max_subtasks: int | None) -> _Context:
            self._callback_fit_ctx = context = _Context(self._skl_callbacks, max_subtasks=max_subtasks)
            for callback in context.callbacks:
                callback.setup(self, context)
            return context

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """End the tasks of callbacks, also after exceptions in the method."""

        @wraps(method)
        def managed(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return method(estimator, *args, **kwargs)
            finally:
                if context := vars(estimator).pop("_callback_fit_ctx", None):
                    for callback in context.callbacks:
                        callback.teardown(estimator, context)

        return managed


class ReportingMixin(CallbackSupportMixin):
    """Turns progress reports into callback subtasks."""

    def _reporter(self, n_steps: int | None, X: Any, y: Any) -> Callable[[str], bool] | None:
        """Return a function that reports one finished step and returns whether to stop; None if nobody listens."""
        context = self._init_callback_context(max_subtasks=n_steps)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        told = 0
        if not getattr(self, "_skl_callbacks", None):
            if not getattr(self, "verbose", False):
                return None

            def printed(text: str) -> bool:
                nonlocal told
                told += 1
                of = f" of {n_steps}" if n_steps else ""
                print(f"{type(self).__name__}: step {told}{of}: {text}", file=sys.stderr, flush=True)
                return False

            return printed

        def report(text: str) -> bool:
            step = context.subcontext(task_name=text)
            step.call_on_fit_task_begin(estimator=self)
            return bool(step.call_on_fit_task_end(estimator=self))

        return report
