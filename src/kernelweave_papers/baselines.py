"""Baselines: methods of scikit-learn, tuned on inner folds of the training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Folds = Sequence[tuple[Rows, Rows]]
#: Decision values on the test rows, and the chosen parameters.
Answer = tuple[Array, dict[str, Any]]

#: Widths of the tuned RBF kernel: gamma = width / n_features on standardised columns.
WIDTHS = (0.01, 0.1, 0.3, 1.0, 3.0)
PENALTIES = (0.1, 1.0, 10.0, 100.0)
RIDGES = (1e-3, 1e-2, 1e-1, 1.0)


def kernel_ridge(
    K: Array,
    y: Array,
    train: Rows,
    test: Rows,
    folds: Folds,
    alphas: Array,
    intercept: Callable[[Rows], float],
    score: Callable[[Array, Rows], Array],
    best: Callable[[Array], int],
) -> Answer:
    """Ridge regression with one kernel; alpha by inner folds, all alphas from one eigendecomposition."""
    total = np.zeros(len(alphas))
    for fit, held in folds:
        f = _ridge_path(K, y, train[fit], train[held], alphas, intercept(train[fit]))
        loss = score(f, train[held])
        total += loss * len(held)
    chosen = best(total)
    f = _ridge_path(K, y, train, test, alphas[chosen : chosen + 1], intercept(train))[0]
    return f, {"alpha": float(alphas[chosen])}


def _ridge_path(K: Array, y: Array, train: Rows, test: Rows, alphas: Array, b: float) -> Array:
    values, vectors = eigh(K[np.ix_(train, train)], driver="evd")
    rotated = vectors.T @ (y[train] - b)
    left = K[np.ix_(test, train)] @ vectors
    return (rotated / (np.maximum(values, 0.0) + alphas[:, None])) @ left.T + b


def tuned_rbf(
    X: Array,
    y: Array,
    X_test: Array,
    folds: Folds,
    seed: int,
    regression: bool,
    penalties: Sequence[float] = PENALTIES,
) -> Answer:
    """SVC or KernelRidge with one RBF kernel on standardised columns, both parameters by inner folds."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    gammas = [width / X.shape[1] for width in WIDTHS]
    if regression:
        ridge = make_pipeline(StandardScaler(), KernelRidge(kernel="rbf"))
        model = TransformedTargetRegressor(ridge, transformer=StandardScaler())
        name = "regressor__kernelridge"
        grid = {f"{name}__alpha": list(RIDGES), f"{name}__gamma": gammas}
    else:
        model = make_pipeline(StandardScaler(), SVC(cache_size=100))
        grid = {"svc__C": list(penalties), "svc__gamma": gammas}
    scoring = "neg_mean_squared_error" if regression else "accuracy"
    search = GridSearchCV(model, grid, cv=list(folds), scoring=scoring).fit(X, y)
    chosen = {key.rpartition("__")[2]: float(value) for key, value in search.best_params_.items()}
    return search.predict(X_test), chosen


def forest(X: Array, y: Array, X_test: Array, folds: Folds, seed: int, regression: bool) -> Answer:
    """A random forest of 300 trees, otherwise with scikit-learn's settings."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    cls = RandomForestRegressor if regression else RandomForestClassifier
    return cls(n_estimators=300, random_state=seed).fit(X, y).predict(X_test), {}


def boosting(X: Array, y: Array, X_test: Array, folds: Folds, seed: int, regression: bool) -> Answer:
    """Gradient boosting with scikit-learn's settings; the number of trees by the first inner fold, at most 300."""
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    cls = GradientBoostingRegressor if regression else GradientBoostingClassifier
    fit, held = folds[0]
    model = cls(n_estimators=300, random_state=seed).fit(X[fit], y[fit])
    stages = model.staged_predict(X[held])
    losses = [np.mean(np.square(f - y[held]) if regression else f != y[held]) for f in stages]
    n_trees = int(np.argmin(losses)) + 1
    return cls(n_estimators=n_trees, random_state=seed).fit(X, y).predict(X_test), {"trees": n_trees}
