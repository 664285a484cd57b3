"""scikit-learn's checks of an estimator: those of the version that this package is developed with."""

import pytest
import sklearn
from sklearn.utils import estimator_checks

#: Older versions have fewer checks, other arguments for them, and faults that were mended since.
CURRENT = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


def parametrize_with_checks(estimators, expected_failed_checks=None):
    """A case for each estimator and check; none with an older scikit-learn."""
    if not CURRENT:
        return pytest.mark.parametrize(("estimator", "check"), [])
    return estimator_checks.parametrize_with_checks(estimators, expected_failed_checks=expected_failed_checks)
