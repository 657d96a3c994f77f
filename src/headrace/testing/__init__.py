"""A real broker for tests, and the simulator. `with Broker() as broker:` is the whole of it; the pytest plugin has it
as the fixture `headrace_broker`.

Nothing is imported until it is asked for: pytest loads the plugin in every project that has Headrace installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.broker import Broker as Broker
    from headrace.testing.broker import BrokerFault as BrokerFault
    from headrace.testing.events import Event as Event
    from headrace.testing.faulty import NoTemporaryFolder as NoTemporaryFolder
    from headrace.testing.life import DidNotSettle as DidNotSettle
    from headrace.testing.life import NotRunning as NotRunning

_HOMES = {
    "Broker": "broker",
    "BrokerFault": "broker",
    "DidNotSettle": "life",
    "Event": "events",
    "NoTemporaryFolder": "faulty",
    "NotRunning": "life",
}

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
