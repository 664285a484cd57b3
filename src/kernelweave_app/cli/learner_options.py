"""Parameters of learners as options of the command line, from a file: importing the learners takes seconds.

``make options`` writes the file from the declarations at the parameters.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["LearnerOptions", "declared_options", "learner_options"]

FILE = Path(__file__).with_name("learner_options.json")


@dataclass(frozen=True)
class LearnerOptions:
    """What the command line shows of learners.

    Attributes
    ----------
    learners : list of str
        Their short names.
    options : dict of str to pair of str
        The kind of a value and the help text, by the names of parameters.
    """

    learners: list[str]
    options: dict[str, list[str]]


def learner_options() -> LearnerOptions:
    """The options of all learners; those of the file, unless the learners have been imported already."""
    if "kernelweave.learners" in sys.modules:
        return declared_options()
    return LearnerOptions(**json.loads(FILE.read_text("utf8")))


def declared_options() -> LearnerOptions:
    """The options as learners declare them now."""
    from kernelweave.learners import LEARNERS
    from kernelweave_app.runs.settings import learner_settings

    options = {name: [one.form.kind, one.about] for name, one in learner_settings().items()}
    return LearnerOptions(list(LEARNERS), options)


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(asdict(declared_options()), indent=1, ensure_ascii=False) + "\n", "utf8")


if __name__ == "__main__":
    main()
