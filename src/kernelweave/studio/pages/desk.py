"""What a visitor is putting together: tables, target, settings; kept in the store after every change."""

from __future__ import annotations

from typing import Any

from kernelweave._errors import InputError
from kernelweave.runs.spec import FitSpec, check_spec
from kernelweave.studio.schema import Data, Draft, Joining
from kernelweave.studio.service import Studio

#: Settings that name columns, and lose their meaning with another table.
OF_A_TABLE = ("target", "task", "weights", "group", "holdout", "drop", "views", "kernels")


class Desk:
    """The draft of one page.

    Parameters
    ----------
    studio : Studio
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.draft: Draft = studio.draft()

    @property
    def spec(self) -> FitSpec:
        """Settings."""
        return self.draft.spec

    @property
    def data(self) -> Data | None:
        """Tables to learn from."""
        return self.draft.data

    def keep(self) -> None:
        """Write the draft down."""
        self.studio.set_draft(self.draft)

    def set(self, **values: Any) -> None:
        """Change settings; wrong ones are an `InputError` and change nothing."""
        self.draft.spec = check_spec({**self.draft.spec.model_dump(), **values})
        self.keep()

    def set_tables(self, tables: list[str], key: str = "") -> None:
        """Choose tables; settings that name columns of others are forgotten."""
        changed = self.data is None or set(self.data.tables) != set(tables)
        self.draft.data = Data(tables=tables, key=key) if tables else None
        if changed:
            fresh = FitSpec()
            values = {name: getattr(fresh, name) for name in OF_A_TABLE}
            self.draft.spec = self.draft.spec.model_copy(update=values)
            self.draft.name = ""
            self._guess_target()
        self.keep()

    def _guess_target(self) -> None:
        if self.data is None:
            return
        for table_id in self.data.tables:
            try:
                names = list(self.studio.catalogue.read(table_id).columns)
            except InputError:
                continue
            lower = {name.lower(): name for name in reversed(names)}
            for usual in ("target", "class", "label", "outcome", "y"):
                if usual in lower:
                    self.draft.spec = self.draft.spec.model_copy(update={"target": lower[usual]})
                    return

    def joined(self) -> Joining | None:
        """The tables side by side; None while nothing is chosen or they cannot be read."""
        if self.data is None:
            return None
        try:
            return self.studio.join(self.data)
        except InputError as error:
            return Joining(n_rows=0, columns=[], numeric=[], sides=[], views={}, keys=[], problem=str(error))

    def features(self, joined: Joining) -> list[str]:
        """Columns to learn from, before views."""
        from kernelweave.runs.spec import names_in

        spec = self.spec
        key = self.data.key if self.data else ""
        leave = {spec.target, spec.weights, spec.group, spec.holdout, key, *names_in(spec.drop)}
        return [name for name in joined.columns if name not in leave]

    def views(self) -> dict[str, list[str]]:
        """Views that were made here."""
        return dict(self.spec.views) if isinstance(self.spec.views, dict) else {}
