"""Pages of the studio without a browser: a simulated user in this process."""

import asyncio
import os
from contextlib import asynccontextmanager

from nicegui import Client, ElementFilter, ui
from nicegui.testing import user_simulation
from nicegui.testing.user_interaction import UserInteraction


@asynccontextmanager
async def user_of(studio):
    """A user of the pages of a studio."""
    from kernelweave_app.studio.pages import declare_pages

    os.environ["NICEGUI_STORAGE_PATH"] = str(studio.places.pages)
    async with user_simulation() as user:
        declare_pages(studio)
        try:
            yield user
        finally:
            # the modules of these pages would be imported again, and with them the whole package
            Client.page_routes.clear()


def visiting(studio, visit):
    """Let a coroutine function be a user of a studio."""

    async def go():
        async with user_of(studio) as user:
            await visit(user)

    asyncio.run(go())


def named(user, name, kind=ui.element):
    """The elements of a page with an accessible name."""
    with user:
        return [one for one in ElementFilter(kind=kind) if one.props.get("aria-label") == name]


def press(user, name):
    """Click the only button with an accessible name."""
    [button] = named(user, name, ui.button)
    UserInteraction(user, {button}, name).click()


async def until(question, seconds=20.0):
    """Ask again until the answer is not empty."""
    for _ in range(int(seconds / 0.05)):
        if found := question():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"nothing after {seconds} s")
