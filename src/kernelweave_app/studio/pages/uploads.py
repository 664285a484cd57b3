"""Fields that take files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from nicegui import ui

from kernelweave._errors import InputError
from kernelweave_app.studio.pages.shell import said

if TYPE_CHECKING:
    from nicegui.events import GenericEventArguments


#: Suffixes of tables.
TABLES = ".csv,.tsv,.tab,.gz,.parquet,.pq,.npz,.npy,.mtx,.svmlight,.h5ad"


def pick_button(label: str) -> str:
    """The head of an uploader, whose field and button have names; a template of constants alone.

    The button beside the field opens it: one in the other could not be told apart without a pointer.
    """
    return (
        f'<div class="row no-wrap items-center q-pa-sm"><label class="col q-uploader__title kw-picker">{label}'
        '<q-uploader-add-trigger /></label><q-btn flat round dense icon="add" aria-label="Choose a file" '
        '@click="props.pickFiles($event)" /></div>'
    )


def drop_zone(
    label: str,
    done: Callable[[str], object],
    *,
    multiple: bool = False,
    path: str = "/api/tables",
    accept: str = TABLES,
) -> None:
    """Upload files to the API, which checks size and content while the bytes arrive.

    Parameters
    ----------
    label : str
    done : callable
        Called with the id of what is new.
    multiple : bool, default=False
    path : str, default="/api/tables"
        Where they go.
    accept : str
        Suffixes.
    """
    upload = ui.upload(multiple=multiple, auto_upload=True).classes("kw-upload")
    upload.props(f"flat bordered accept='{accept}'")
    upload.add_slot("header", pick_button(label))
    upload.props[":factory"] = (
        "(files) => ({sendRaw: true, "
        f"url: `${{window.path_prefix}}{path}?name=${{encodeURIComponent(files[0].name)}}`}})"
    )

    async def arrived(event: GenericEventArguments) -> None:
        answer = done(event.args if isinstance(event.args, str) else event.args[0])
        if isinstance(answer, Awaitable):
            await answer

    # what has ended leaves the list at once: the answer may take its time, and another file may be on its way by then
    upload.on(
        "uploaded",
        arrived,
        js_handler=(
            f"(info) => {{ const list = getElement({upload.id}).$refs.qRef; "
            "[...info.files, ...list.$el.refused ?? []].forEach(list.removeFile); list.$el.refused = []; "
            "emit(JSON.parse(info.xhr.responseText).id) }"
        ),
    )
    upload.on(
        "failed",
        lambda event: said(InputError(event.args if isinstance(event.args, str) else event.args[0])),
        js_handler=(
            f"(info) => {{ const list = getElement({upload.id}).$refs.qRef.$el; "
            "list.refused = [...list.refused ?? [], ...info.files]; "
            "let why = ''; try { why = JSON.parse(info.xhr.responseText).detail } catch (e) {} "
            "emit(why || 'The upload was refused or cut off. Is the file larger than the limit?') }"
        ),
    )
