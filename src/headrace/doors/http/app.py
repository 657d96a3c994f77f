"""The application: the direct way for the busiest routes, behind it all routes, and around both the headers that let
pages of any origin ask (CORS).
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from starlette.middleware.cors import CORSMiddleware

from headrace.doors.http.direct import Direct
from headrace.doors.http.guard import App, Message, Receive, Send
from headrace.doors.http.polling import Positions
from headrace.doors.http.services import Services
from headrace.ports import Background


def new_app(services: Services, background: Background) -> App:
    positions = Positions(services)
    direct: Any = Direct(Whole(services, positions, background), services, positions)
    # Any page may ask; none may send along what the browser keeps for another.
    all_ = ["*"]
    anybody = CORSMiddleware(direct, allow_origins=all_, allow_methods=all_, allow_headers=all_, expose_headers=all_)
    return cast(App, anybody)


class Whole:
    """All routes, loaded off the loop when they are first asked for. Who comes meanwhile waits."""

    def __init__(self, services: Services, positions: Positions, background: Background) -> None:
        self._services, self._positions, self._background = services, positions, background
        self._app: App | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._app is None:
            loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(loaded)
            if len(self._waiting) == 1:
                self._background.run(self._load, self._loaded)
            await loaded
        assert self._app is not None
        await self._app(scope, receive, send)

    def _load(self) -> App:
        from headrace.doors.http.described import described

        return cast(App, described(self._services, self._positions))

    def _loaded(self, app: App | None, error: BaseException | None) -> None:
        waiting, self._waiting = self._waiting, []
        self._app = app
        for one in waiting:
            if not one.done():
                one.set_exception(error) if error is not None else one.set_result(None)
