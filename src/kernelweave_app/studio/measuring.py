"""The time of a run before it starts, in a process of its own: ``python -m kernelweave_app.studio.measuring``.

It reads paths and settings as JSON and writes the estimate as JSON, so that neither its memory nor its work are the
server's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from kernelweave._errors import InputError
from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.studio.processes import environment
from kernelweave_app.studio.schema import Expected

#: Seconds after which measuring is given up.
MOST_SECONDS = 90.0


def main() -> int:
    """Estimate what is asked for on standard input."""
    from kernelweave_app.runs.estimating import estimate_fit
    from kernelweave_app.runs.further import read_all
    from kernelweave_app.runs.preparing import prepare

    asked = json.load(sys.stdin)
    spec = FitSpec(**asked["spec"])
    try:
        found = estimate_fit(spec, prepare(read_all(asked["paths"], spec), spec))
    except InputError as error:
        print(json.dumps({"problem": str(error)}))
        return 0
    told = {"seconds": found.seconds, "low": found.low, "high": found.high, "memory": found.memory}
    print(json.dumps({**told, "sure": found.sure()}))
    return 0


def measure(spec: FitSpec, paths: Mapping[str, str], at_once: int = 1) -> Expected:
    """Estimate time and memory of a run.

    Parameters
    ----------
    spec : FitSpec
    paths : mapping of str to str
    at_once : int, default=1
        Runs at the same time, which share the processors.

    Raises
    ------
    InputError
        If the run itself would refuse these settings, or nothing was measured in time.
    """
    command = [sys.executable, "-P", "-m", "kernelweave_app.studio.measuring"]
    asked = json.dumps({"spec": spec.model_dump(), "paths": dict(paths)})
    try:
        done = subprocess.run(
            command,
            input=asked,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
            env=environment((os.cpu_count() or 1) // at_once),
        )
        found = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise InputError(
            f"A fit on few of these rows takes more than {MOST_SECONDS:.0f} s already: expect hours. Choose fewer "
            "kernels or columns, or another learner."
        ) from None
    except (ValueError, IndexError, OSError) as error:
        raise InputError(f"The time could not be measured: {error}.") from None
    if "problem" in found:
        raise InputError(found["problem"])
    return Expected(**found)


if __name__ == "__main__":
    sys.exit(main())
