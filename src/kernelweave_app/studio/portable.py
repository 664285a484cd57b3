"""The folder of a run as one file that runs elsewhere: model, tables, settings and scripts, with relative paths."""

from __future__ import annotations

import json
from pathlib import Path

from kernelweave import InputError
from kernelweave_app.studio.service import Studio
from kernelweave_app.studio.store import packing

#: Files whose text names tables.
TEXTS = (".py", ".toml", ".json", ".html")
README = """{name}

    python script.py                                      fits the model again, from the tables in the folder data
    kernelweave predict . NEW.csv --out predictions.csv   predicts the rows of another table

Both need kernelweave (pip install "kernelweave[cli,save]") and run in this folder. In Python:

    import kernelweave as kw
    model = kw.load("model.skops")

The folder data has the tables of the run: pass it on only to those who may see them.
"""


def pack_run(studio: Studio, run_id: str) -> Path:
    """Write the folder of a run to a zip file among the uploads, which whoever asked for it deletes.

    Parameters
    ----------
    studio : Studio
    run_id : str

    Returns
    -------
    Path
    """
    if not any(made.name.startswith("model.") for made in studio.artifacts(run_id)):
        raise InputError("This run has no model, so that a folder of it would not run elsewhere.")
    request = json.loads(studio.store.run(run_id)["request"])
    beside = request.get("files", {})
    kernels = [
        *beside.get("gram", ()),
        *(one.partition("=")[2].partition("#")[0] for one in beside.get("view", ())),
    ]
    # an imported project may name any file of this computer
    own = [path for path in kernels if Path(path).resolve().is_relative_to(studio.places.root.resolve())]
    paths = [*request["paths"].values(), *own]
    names: dict[str, str] = {}
    for path in dict.fromkeys(map(str, paths)):
        name, number = Path(path).name, 2
        while f"data/{name}" in names.values():
            name, number = f"{number}-{Path(path).name}", number + 1
        names[path] = f"data/{name}"
    # the longest first: one path may begin with another
    order = sorted(names, key=len, reverse=True)
    folder = studio.places.run(run_id)
    with packing(studio.places) as archive:
        archive.writestr("README.txt", README.format(name=studio.run(run_id).name))
        for path, name in names.items():
            if Path(path).is_file():
                archive.write(path, name)
        for made in studio.artifacts(run_id):
            file = folder / made.name
            if file.suffix not in TEXTS:
                archive.write(file, made.name)
                continue
            text = file.read_text("utf8")
            for path in order:
                text = text.replace(path, names[path])
            archive.writestr(made.name, text.replace(f"{folder}/", ""))
    return Path(str(archive.filename))
