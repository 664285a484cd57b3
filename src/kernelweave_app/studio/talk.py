"""A websocket that ends with its session."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Send

#: Code of a websocket that was closed because its session is over.
OVER = 1008
#: Seconds between two looks at the clock: a computer that slept has missed the end.
LOOK = 30.0


class Talk:
    """Both directions of a websocket, until a time.

    Parameters
    ----------
    receive, send : ASGI callables
    ends : float
        Seconds since the epoch, infinity for never.
    """

    def __init__(self, receive: Receive, send: Send, ends: float) -> None:
        self._receive, self._send, self._ends = receive, send, ends
        self._next: asyncio.Future[Message] | None = None
        self._closed = False

    async def receive(self) -> Message:
        """The next message; at the end of the session the websocket is closed, whatever else arrives."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._receive())
        while (left := self._ends - time.time()) > 0:
            done, _ = await asyncio.wait({self._next}, timeout=min(left, LOOK))
            if done and self._ends > time.time():
                message, self._next = self._next.result(), None
                return message
        self._next.cancel()
        await self.send({"type": "websocket.close", "code": OVER, "reason": "The session is over."})
        self._closed = True
        return {"type": "websocket.disconnect", "code": OVER}

    async def send(self, message: Message) -> None:
        """Send a message, unless the session is over."""
        if not self._closed:
            await self._send(message)
