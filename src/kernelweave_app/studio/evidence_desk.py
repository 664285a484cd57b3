"""Evidence about runs, for the API and the pages."""

from __future__ import annotations

from pathlib import Path

from kernelweave._errors import InputError
from kernelweave.inspection.findings import possible, sentences_of, tables_of
from kernelweave_app.runs.evidence import read_evidence
from kernelweave_app.runs.folders import csv_text
from kernelweave_app.studio.disk import room
from kernelweave_app.studio.evidence_jobs import EvidenceJobs
from kernelweave_app.studio.places import Places
from kernelweave_app.studio.printing import print_figure
from kernelweave_app.studio.schema import CitedNumber, Evidence, EvidenceProgress, Sentence
from kernelweave_app.studio.store import FINAL, Store

#: Figures by the findings that they need.
OF_EVIDENCE = {
    "stability": "stability",
    "learning curve": "learning-curve",
    "calibration": "calibration",
    "permutation": "permutation",
}


class EvidenceDesk:
    """Reads, computes and prints evidence about the runs of a studio.

    Parameters
    ----------
    store : Store
    places : Places
    jobs : EvidenceJobs, optional
        Those of another project.
    """

    def __init__(self, store: Store, places: Places, jobs: EvidenceJobs | None = None) -> None:
        self.store, self.places = store, places
        self.jobs = jobs or EvidenceJobs(places)

    def read(self, run_id: str) -> Evidence:
        """Sentences, numbers, and what is being computed."""
        folder = self._folder(run_id)
        found = read_evidence(folder)
        return Evidence(
            numbers={name: one.to_json() for name, one in found.items()},
            statements=[
                Sentence(
                    topic=one.topic,
                    sentence=one.text,
                    numbers=[
                        CitedNumber(source=[name, *cited.source], value=cited.value, shown=cited.shown)
                        for cited in one.numbers
                    ],
                )
                for name, one in sentences_of(found)
            ],
            kinds=possible(found) if found else [],
            progress={
                kind: EvidenceProgress(**{k: v for k, v in one.items() if k in EvidenceProgress.model_fields})
                for kind, one in self.jobs.status(run_id).items()
            },
            figures=[name for key, name in OF_EVIDENCE.items() if key in found],
            tables=[table.name for table in tables_of(found)],
        )

    def start(self, run_id: str, kind: str, count: int, *, refit: bool) -> Evidence:
        """Begin to compute a kind of evidence."""
        self._folder(run_id)
        self.jobs.start(run_id, kind, count, refit=refit)
        return self.read(run_id)

    def stop(self, run_id: str, kind: str) -> Evidence:
        """Stop after the present step."""
        self._folder(run_id)
        self.jobs.stop(run_id, kind)
        return self.read(run_id)

    def figure(self, run_id: str, name: str, width: float, kind: str) -> Path:
        """A figure for papers."""
        folder = self._folder(run_id)
        with room(self.places.root):
            return print_figure(folder, name, width, kind)

    def table(self, run_id: str, name: str, kind: str) -> str:
        """A table as CSV or LaTeX."""
        for table in tables_of(read_evidence(self._folder(run_id))):
            if table.name == name:
                return csv_text(table.frame()) if kind == "csv" else table.latex()
        raise InputError(f"Run {run_id} has no file {name!r:.60}.")

    def _folder(self, run_id: str) -> Path:
        row = self.store.run(run_id)
        if row["state"] not in FINAL:
            raise InputError("This run has no results yet.")
        return self.places.run(run_id)
