"""What the studio says about tables: columns, rows, joins, targets, missing cells, outliers, views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kernelweave._errors import InputError
from kernelweave.views.groups import names_in
from kernelweave_app.runs.columns import with_types
from kernelweave_app.runs.joining import Joined
from kernelweave_app.runs.preparing import prepare, rows_with
from kernelweave_app.runs.spec import FitSpec
from kernelweave_app.runs.tables import need_column
from kernelweave_app.studio import looks, profiles
from kernelweave_app.studio.catalogue import Catalogue
from kernelweave_app.studio.columns import describe_column
from kernelweave_app.studio.schema import (
    Alignments,
    Columns,
    Data,
    Further,
    Joining,
    Marked,
    Missing,
    Outliers,
    Rows,
    Table,
    Target,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

Answer = TypeVar("Answer")


class Looking:
    """Questions about tables; answers are kept as long as the files do not change."""

    catalogue: Catalogue

    def table(self, table_id: str) -> Table:
        """Size, types and missing values of a table."""
        entry = self.catalogue.entry(table_id)

        def look() -> Table:
            return profiles.describe_table(self.catalogue.read(table_id), table_id, entry.ref.name)

        return self._kept(Data(tables=[table_id]), "table", look)

    def columns(
        self, table_id: str, start: int, number: int, search: str, types: Mapping[str, str] | None = None
    ) -> Columns:
        """Some columns of a table, of these types by their names in the table."""
        table = self.catalogue.read(table_id)
        names = [c for c in table.columns if search.lower() in c.lower()]
        chosen = names[start : start + min(number, profiles.MOST_COLUMNS)]
        known = set(chosen)
        part = with_types(
            table[chosen], {name: kind for name, kind in (types or {}).items() if name in known}
        )
        return Columns(total=len(names), columns=[describe_column(part[name], name) for name in chosen])

    def rows(self, table_id: str, start: int, number: int, first_column: int, n_columns: int) -> Rows:
        """Some rows of a table."""
        table = self.catalogue.read(table_id)
        names = list(table.columns)[first_column : first_column + n_columns]
        return profiles.take_rows(table, start, number, names)

    def join(self, data: Data) -> Joining:
        """The result of joining tables."""
        paths = self.catalogue.paths(data)
        tables = {name: self.catalogue.read_file(Path(p), Path(p).name) for name, p in paths.items()}
        ids = dict(zip(paths, dict.fromkeys(data.tables), strict=True))
        first = next(iter(tables.values()), None)
        shared = (
            []
            if first is None
            else [c for c in first.columns if all(c in t.columns for t in tables.values())]
        )
        problem = ""
        joined: Joined | None = None
        try:
            joined = self.catalogue.join(data)
        except InputError as error:
            problem = str(error)
            joined = None if first is None else Joined(first, {}, {}, {})
        return Joining(
            n_rows=0 if problem or joined is None else len(joined.table),
            columns=[] if joined is None else [c for c in joined.table.columns if c != joined.names],
            numeric=[] if joined is None else profiles.numeric_columns(joined.table),
            sides=[] if joined is None else profiles.describe_sides(joined, tables, ids),
            views={} if joined is None else joined.views,
            keys=shared,
            problem=problem,
            further=[] if joined is None else _further(joined),
        )

    def target(self, data: Data, name: str, task: str) -> Target:
        """The task that a target column implies."""
        return profiles.describe_target(self.catalogue.join(data).table, name, task)

    def missing(self, data: Data, spec: FitSpec) -> Missing:
        """Missing cells of the columns to learn from, and what would fill them."""

        def look() -> Missing:
            joined = self.catalogue.join(data, spec.rows)
            table = with_types(joined.table, spec.types)
            leave = {spec.target, spec.weights, spec.group, spec.holdout, data.key, joined.names}
            leave.update(names_in(spec.drop), (one.column for one in joined.grams.values()))
            known = set(table.columns) - leave
            views = spec.views if isinstance(spec.views, dict) else joined.views
            views = {view: [c for c in names if c in known] for view, names in views.items()}
            used = {c for names in views.values() for c in names} if isinstance(spec.views, dict) else known
            columns = [c for c in table.columns if c in known and c in used]
            return looks.describe_missing(table, columns, views)

        return self._kept(data, ("missing", _roles(spec)), look)

    def marked(self, data: Data, spec: FitSpec) -> Marked:
        """The rows that a column holds out."""

        def look() -> Marked:
            asked = spec.model_copy(update={"key": data.key or spec.key})
            joined = self.catalogue.join(data, spec.rows)
            need_column(joined.table, spec.holdout, "the held-out rows")
            table = with_types(rows_with(joined, asked, [spec.holdout]), spec.types)
            return profiles.describe_division(table[spec.holdout], spec.holdout_values)

        return self._kept(data, ("held-out", _roles(spec)), look)

    def outliers(self, table_id: str) -> Outliers:
        """Numbers far from the median of their column."""
        data = Data(tables=[table_id])
        return self._kept(data, "outliers", lambda: looks.find_outliers(self.catalogue.read(table_id)))

    def alignments(self, data: Data, spec: FitSpec) -> Alignments:
        """How alike the views of a run are, and how alike the target."""

        def look() -> Alignments:
            # missing cells are filled for the comparison, whatever a fit does about them
            asked = spec.model_copy(update={"missing": "impute", "key": data.key or spec.key})
            return looks.align_views(prepare(self.catalogue.join(data, spec.rows), asked))

        return self._kept(data, ("alignments", spec.target, spec.task, _roles(spec)), look)

    def _kept(self, data: Data, question: Hashable, look: Callable[[], Answer]) -> Answer:
        return self.catalogue.answer(data, question, look)


def _roles(spec: FitSpec) -> str:
    """The settings that decide which columns are features, as text."""
    names = {
        "target",
        "weights",
        "group",
        "holdout",
        "holdout_values",
        "drop",
        "views",
        "rows",
        "types",
        "key",
    }
    return spec.model_dump_json(include=names)


def _further(joined: Joined) -> list[Further]:
    """Views from files of their own."""
    found = [
        Further(
            name=name, use="sparse", file=_file(joined.files.get(name, "")), n_columns=rows.shape[1], by=""
        )
        for name, rows in joined.sparse.items()
    ]
    return found + [
        Further(name=name, use="kernels", file=_file(one.path), n_columns=one.view.shape[1], by=one.column)
        for name, one in joined.grams.items()
    ]


def _file(path: str) -> str:
    return Path(path.partition("#")[0]).name
