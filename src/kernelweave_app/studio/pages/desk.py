"""The draft of a user: tables, target and settings, stored after every change."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kernelweave._errors import InputError
from kernelweave._forms import names_in
from kernelweave_app.runs.columns import names_of_target, read_types
from kernelweave_app.runs.joining import rename_shared
from kernelweave_app.runs.kernels_of import BANKS
from kernelweave_app.runs.preparing import taken_columns
from kernelweave_app.runs.settings import settled
from kernelweave_app.runs.spec import DEFAULT, Spec, check_spec, event_setting, label_of, marked
from kernelweave_app.runs.survival import event_of, obvious_times
from kernelweave_app.studio.looking import OF_ONE_COLUMN
from kernelweave_app.studio.schema import Data, Draft, Joining, Use
from kernelweave_app.studio.service import Studio

#: Settings that name columns or views, and are lost with other tables; and their labels.
OF_A_TABLE = {name: label_of(name).lower() for name in marked("of_table")}

ELSEWHERE = "The tables have been changed in another window. Load this page again."

#: Where a column comes from: the id of a table, and the name there.
Origin = tuple[str, str]


class Desk:
    """The draft of one page.

    Parameters
    ----------
    studio : Studio
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.draft: Draft = studio.draft()
        self._kept = self.draft.model_copy(deep=True)

    @property
    def spec(self) -> Spec:
        """Settings."""
        return self.draft.spec

    @property
    def data(self) -> Data | None:
        """Tables to learn from."""
        return self.draft.data

    def keep(self) -> None:
        """Store what has changed here; the rest of the draft may have changed in another window."""
        before, now = self._kept, self.draft

        def change(stored: Draft) -> Draft:
            changed = {name: value for name, value in now.spec if value != getattr(before.spec, name)}
            if "learner_params" in changed:
                old, new = before.spec.learner_params, now.spec.learner_params
                others = {k: v for k, v in stored.spec.learner_params.items() if k not in old or k in new}
                mine = {name: value for name, value in new.items() if name not in old or old[name] != value}
                changed["learner_params"] = others | mine
            return Draft(
                data=now.data if now.data != before.data else stored.data,
                spec=stored.spec.model_copy(update=changed),
                name=now.name if now.name != before.name else stored.name,
            )

        self.studio.change_draft(change)
        self._kept = now.model_copy(deep=True)

    def set(self, **values: Any) -> None:
        """Change settings; wrong ones are an `InputError` and change nothing."""
        if values.get("holdout", self.spec.holdout) != self.spec.holdout:
            values = {"holdout_values": "", **values}  # those of another column
        spec = check_spec({**self.draft.spec.model_dump(), **values})
        if "views" not in values and isinstance(spec.views, dict):
            # a column with another role is in no view
            taken = taken_columns(spec, [c for names in spec.views.values() for c in names])
            views = {view: [c for c in names if c not in taken] for view, names in spec.views.items()}
            if views != spec.views:
                views = {view: names for view, names in views.items() if names}
                values |= {"views": views or "", "kernels": kernels_for(spec.kernels, list(views))}
        stored = self.studio.draft()
        if OF_A_TABLE.keys() & values.keys() and stored.data != self.data:
            raise InputError(ELSEWHERE)
        for name in OF_A_TABLE.keys() & values.keys():
            before, there = getattr(self._kept.spec, name), getattr(stored.spec, name)
            # of what has several parts, those of the other window would be lost
            if there != before and isinstance(there, dict | list) and there != values[name]:
                raise InputError(
                    f"{label_of(name)!r} has been changed in another window. Load this page again."
                )
        self.draft.spec = check_spec({**self.draft.spec.model_dump(), **values})
        self.keep()

    def set_param(self, name: str, value: Any) -> None:
        """Change a parameter of the learner; None restores the default. Invalid values change nothing."""
        params = {key: given for key, given in self.spec.learner_params.items() if key != name}
        if value is not None:
            if self.spec.method != DEFAULT:
                settled(self.spec.method, {name: value})
            params[name] = value
        self.set(learner_params=params)

    # ---- tables -----------------------------------------------------------------------------------

    def found(self) -> tuple[list[str], list[str]]:
        """Ids of the chosen tables: those that are there, and those that have been removed."""
        known = {ref.id for ref in self.studio.tables()}
        chosen = self.data.files if self.data else []
        return [t for t in chosen if t in known], [t for t in chosen if t not in known]

    def uses(self) -> dict[str, Use]:
        """What each chosen file is used as."""
        return self.data.uses if self.data else {}

    def use_of(self, table_id: str) -> Use:
        """What a chosen file is used as."""
        return self.uses().get(table_id, "table")

    def rename_table(self, old: str, new: str) -> None:
        """A chosen table has got another id, with the same contents."""
        if self.data is not None and old != new:
            ids = [new if table == old else table for table in self.data.tables]
            self.draft.data = self.data.model_copy(update={"tables": ids})
            self.keep()

    def set_tables(
        self,
        tables: list[str],
        key: str = "",
        uses: Mapping[str, Use] | None = None,
        by_order: bool = False,
        instead: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Choose tables.

        Parameters
        ----------
        tables : list of str
            Files, which are tables unless something else is said.
        key : str, default=""
        uses : mapping of str to {"table", "kernels", "sparse"}, optional
            By default as before.
        by_order : bool, default=False
            Match rows by their order, without a key.
        instead : mapping of str to str, optional
            Tables that are replaced, and by which: settings stay where the new ones have the columns.

        Returns
        -------
        list of str
            Settings that could not be kept, because these tables lack their columns or views.
        """
        old, lost = self.data, []
        uses = self.uses() if uses is None else uses
        ids = list(dict.fromkeys(tables))
        tables, kernels, sparse = (
            [one for one in ids if uses.get(one, "table") == use] for use in ("table", "kernels", "sparse")
        )
        by_order = by_order and len(tables) > 1
        key = "" if by_order else key
        new = Data(tables=tables, key=key, by_order=by_order, kernels=kernels, sparse=sparse) if ids else None
        self.draft.data = new
        if (
            old is not None
            and new is not None
            and (instead or set(old.tables) & set(new.tables) or old.tables == new.tables)
        ):
            lost = self._carry_over(old, new, instead or {})
        else:
            fresh = Spec()
            self._update(**{name: getattr(fresh, name) for name in OF_A_TABLE})
            self.draft.name = ""
            self._guess_target()
        self.keep()
        return lost

    def _update(self, **values: Any) -> None:
        self.draft.spec = self.draft.spec.model_copy(update=values)

    def _carry_over(self, old: Data, new: Data, instead: Mapping[str, str]) -> list[str]:
        """Keep the settings whose columns are in the new tables too, by their names there; return the lost ones."""
        spec, lost = self.draft.spec, []
        columns = self._origins(new)
        came = {origin: name for name, origin in columns.items()}
        before = self._origins(old)
        now = {
            name: came.get((instead.get(table, table), plain), "") for name, (table, plain) in before.items()
        }
        event, values = event_of(spec, list(before))
        parts = {"target": names_of_target(spec.target, list(before)), "event": [event]}
        for name in ("target", "time", "event", *OF_ONE_COLUMN):
            value = getattr(spec, name)
            kept = [now.get(part) for part in parts.get(name, [value])]
            if value and not all(kept):
                lost.append(f"{OF_A_TABLE[name]} {value!r}")
            now_called = ",".join(map(str, kept)) if all(kept) else ""
            self._update(
                **{name: event_setting(now_called, values) if now_called and name == "event" else now_called}
            )
        if not self.spec.holdout:
            self._update(holdout_values="")
        if spec.target and not self.spec.target:
            self._update(task="auto")
        if not self.spec.predicted:
            self._guess_target()
        drop = names_in(spec.drop)
        gone = [name for name in drop if not now.get(name) and name != new.key]
        if gone:
            lost.append(f"{OF_A_TABLE['drop']} {_some(gone)}")
        self._update(drop=[now[name] for name in drop if now.get(name)])
        types = {now[name]: kind for name, kind in read_types(spec.types).items() if now.get(name)}
        self._update(types=types or "")
        views: dict[str, list[str]] = {}
        if isinstance(spec.views, dict):
            views = self._carry_views(old, columns, now)
            if gone := [view for view in spec.views if view not in views]:
                lost.append(f"views {_some(gone)}")
            self._update(views=views or "")
        kernels = kernels_for(spec.kernels, list(views or (self._names(new) if len(new.tables) > 1 else ())))
        if kernels != spec.kernels and (isinstance(kernels, str) or len(kernels) < len(spec.kernels)):
            lost.append("kernels")
        self._update(kernels=kernels)
        return lost

    def _carry_views(
        self, old: Data, columns: Mapping[str, Origin], now: Mapping[str, str]
    ) -> dict[str, list[str]]:
        """Views that were made here, and one more for each new table."""
        spec = self.spec
        assert isinstance(spec.views, dict)
        views = {view: [now[c] for c in names if now.get(c)] for view, names in spec.views.items()}
        views = {view: names for view, names in views.items() if names}
        roles = taken_columns(spec, list(columns))
        assert self.data is not None
        for table_id, name in zip(dict.fromkeys(self.data.tables), self._names(self.data), strict=True):
            found = [c for c, origin in columns.items() if origin[0] == table_id and c not in roles]
            if views and table_id not in old.tables and found:
                views[name if name not in views else f"table {name}"] = found
        return views

    def names_after_joining(self) -> dict[str, dict[str, str]]:
        """For each table its columns, and their names in all tables side by side."""
        found: dict[str, dict[str, str]] = {}
        for name, (table_id, plain) in (self._origins(self.data) if self.data else {}).items():
            found.setdefault(table_id, {})[plain] = name
        return found

    def _origins(self, data: Data) -> dict[str, Origin]:
        """Where the columns of the tables side by side come from; tables that are gone have none."""
        known = {ref.id for ref in self.studio.tables()}
        ids = [table_id for table_id in dict.fromkeys(data.tables) if table_id in known]
        if not ids:
            return {}
        names = dict(zip(self._names(Data(tables=ids)), ids, strict=True))
        tables = {name: self.studio.catalogue.read(table_id) for name, table_id in names.items()}
        renamed = rename_shared(tables, data.key) if len(tables) > 1 else {}
        return {
            renamed.get(table, {}).get(name, name): (names[table], name)
            for table, frame in tables.items()
            for name in frame.columns
            if len(tables) == 1 or name != data.key
        }

    def _names(self, data: Data) -> list[str]:
        return list(self.studio.catalogue.paths(data))

    def _guess_target(self) -> None:
        if self.data is None:
            return
        columns = [(name, plain.lower()) for name, (_, plain) in self._origins(self.data).items()]
        for usual in ("target", "class", "label", "outcome", "y"):
            for name, plain in columns:
                if plain == usual:
                    self._update(target=name)
                    return
        self._update(**self.times())

    def times(self) -> dict[str, str]:
        """Settings of survival where columns are obviously times and events; else none."""
        with suppress(InputError):
            return obvious_times(self.studio.catalogue.join(self.data).table) if self.data else {}
        return {}

    # ---- columns ----------------------------------------------------------------------------------

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
        leave = taken_columns(self.spec, joined.columns, self.data.key if self.data else "")
        return [name for name in joined.columns if name not in leave]

    def views(self) -> dict[str, list[str]]:
        """Views that were made here."""
        return dict(self.spec.views) if isinstance(self.spec.views, dict) else {}

    def set_views(self, views: Mapping[str, list[str]], joined: Joining) -> None:
        """Make views, and keep the kernels of those that are still there; without any the tables are views."""
        views = {name: columns for name, columns in views.items() if columns}
        kernels = kernels_for(self.spec.kernels, list(views or joined.views))
        self.set(views=views or "", kernels=kernels)


def _some(names: list[str]) -> str:
    """Names, the first ones of many."""
    return ", ".join(map(repr, names[:5])) + (", …" if names[5:] else "")


def kernels_for(kernels: str | dict[str, str], views: list[str]) -> str | dict[str, str]:
    """The part of a choice of kernels that can be kept.

    Parameters
    ----------
    kernels : str or dict of str to str
    views : list of str
        Names of the views there are; empty if kernels see all columns.

    Returns
    -------
    str or dict of str to str
    """
    if isinstance(kernels, dict):
        return {view: text for view, text in kernels.items() if view in views} or "default"
    is_bank = kernels.strip().lower().replace("-", "_") in BANKS
    return "default" if views and is_bank else kernels
