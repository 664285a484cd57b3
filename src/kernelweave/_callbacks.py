"""scikit-learn's callbacks (experimental in 1.9), and a replacement for earlier versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

__all__ = ["CallbackContext", "CallbackSupportMixin", "with_callbacks"]


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
