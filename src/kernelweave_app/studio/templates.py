"""Settings to begin with: one question with several sources, and a table of each of the papers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelweave_app.runs.spec import Spec
from kernelweave_app.studio.catalogue import PROSTATE, built_in_sets, load_set
from kernelweave_app.studio.schema import Data, Draft


@dataclass(frozen=True)
class Template:
    """A table with settings for it.

    Attributes
    ----------
    name, title, about : str
    data : str
        Name of its data set.
    settings : mapping
    """

    name: str
    title: str
    about: str
    data: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_here(self) -> bool:
        """Whether its data are on this computer."""
        return self.data in built_in_sets()

    @property
    def draft(self) -> Draft:
        """What is to be run."""
        spec = Spec(**self.settings)
        if self.name == "example":
            spec.views = example_views(list(load_set(self.data).columns))
        return Draft(data=Data(tables=[f"set-{self.data}"]), spec=spec, name=self.title)


#: A real question with several sources, whose data ship with scikit-learn.
EXAMPLE = Template(
    "example",
    "Tumours: means, errors or worst values?",
    "569 tumours, benign or malignant. Each of ten measurements has a mean over the cells, its standard error and its "
    "worst value. Which of these three sources tell the tumours apart?",
    "breast-cancer",
    {"target": "target", "test_size": 0.3},
)
PAPERS = (
    Template(
        "prostate",
        "Prostate, Table 1 (RLS2)",
        "67 rows to train on, 30 held out, a linear kernel on each column, and the alpha of the table, 0.0881. It ends "
        "in the coefficients and the test error as printed. The paper does not give its folds: 10 folds with the "
        "one-standard-error rule, which are set for a path, choose a larger alpha.",
        PROSTATE,
        {
            "target": "lpsa",
            "holdout": "train",
            "kernels": "linear_features",
            "method": "rls2",
            "normalize": "norm",
            "standardize": False,
            "alphas": "0.0881,",
            "cv": 10,
            "rule": "1se",
            "scoring": "neg_mean_squared_error",
        },
    ),
    Template(
        "rkl",
        "Sonar, Table 1 (RKL)",
        "20 kernels on 60 columns, C from 0.01 to 100 by three folds, and a fifth of the rows held out. The paper "
        "prints the mean accuracy over five such divisions.",
        "sonar",
        {
            "target": "target",
            "kernels": "rkl",
            "method": "rkl",
            "normalize": "trace",
            "Cs": "0.01,0.1,1,10,100",
            "cv": 3,
            "test_size": 0.2,
        },
    ),
    Template(
        "mlmkl",
        "Liver, Table 2 (MLMKL)",
        "Two layers of four kernels with C = 10, and half of the rows held out. The paper prints the mean accuracy "
        "over several such halves.",
        "liver",
        {
            "target": "target",
            "kernels": "mlmkl",
            "method": "mlmkl",
            "normalize": "cosine",
            "Cs": "10,",
            "test_size": 0.5,
        },
    ),
)


def example_views(names: list[str]) -> dict[str, list[str]]:
    """The sources of the example, from the names of its columns."""
    found = {
        "mean": [name for name in names if name.startswith("mean ")],
        "error": [name for name in names if name.endswith(" error")],
        "worst": [name for name in names if name.startswith("worst ")],
    }
    return {view: columns for view, columns in found.items() if columns}
