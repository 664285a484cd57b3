"""Pictures of kernels before learning."""

from __future__ import annotations

from nicegui import ui
from starlette.concurrency import run_in_threadpool as offload

from kernelweave._errors import InputError
from kernelweave_app.studio.pages.desk import Desk
from kernelweave_app.studio.pages.shell import Turn, counted, note, plural, size, stack, stat, text, waiting
from kernelweave_app.studio.schema import KernelPreviews
from kernelweave_app.studio.service import Studio

THUMBNAILS = 24


class Pictures:
    """The Gram matrices of the kernels that are chosen in a draft.

    Parameters
    ----------
    studio : Studio
    desk : Desk
    """

    def __init__(self, studio: Studio, desk: Desk) -> None:
        self.studio, self.desk = studio, desk
        self.turn = Turn()

    @ui.refreshable_method
    async def show(self) -> None:
        """Compute the Gram matrices and show those best aligned with the target."""
        assert self.desk.data is not None
        newest = self.turn.take()
        sign = waiting("Computing the kernels")
        found: KernelPreviews | None = None
        problem = ""
        try:
            found = await offload(self.studio.kernels, self.desk.data, self.desk.spec, THUMBNAILS)
        except InputError as error:
            problem = str(error)
        if not newest():
            return
        sign.delete()
        if found is None:
            note(problem, "bad")
            return
        with stack("kw-stats"):
            counted("kernel", found.n_kernels)
            stat(size(found.memory), "memory at most", f"of {size(found.budget)}")
            counted("training row", found.n_rows)
        if found.memory > found.budget:
            note(
                "More than the memory for kernels: they are recomputed by tiles, which is slower.",
                "warn",
            )
        text(
            f"Gram matrices of {plural(found.n_sampled, 'row')} sorted by the target, light where rows are alike. "
            "Alignment with the target is from −1 to 1; best first."
        ).classes("kw-hint")
        with ui.element("div").classes("kw-thumbs"):
            for kernel in found.kernels[:THUMBNAILS]:
                with ui.element("figure").classes("kw-thumb"):
                    picture = ui.element("img")
                    picture.props["src"] = kernel.thumbnail
                    picture.props["alt"] = f"Gram matrix of {kernel.name}"
                    with ui.element("figcaption"):
                        text(kernel.name, "b").style("font-weight: 500")
                        rank = f", rank {kernel.rank}" if kernel.rank is not None else ""
                        text(f"alignment {kernel.alignment:.3f}{rank}", "span")
        if found.n_looked < found.n_kernels:
            text(
                f"The {THUMBNAILS} best aligned of {found.n_looked} kernels, which are spread evenly over "
                f"all {found.n_kernels}."
            ).classes("kw-hint")
        elif found.n_kernels > THUMBNAILS:
            text(f"The {THUMBNAILS} best aligned of {found.n_kernels} kernels.").classes("kw-hint")
