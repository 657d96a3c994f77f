"""422: what in a request is not of the shape that the route takes, as `{"detail": [{"type", "loc", "msg", "input"}]}`.

A request may hold what JSON answers cannot carry (NaN, half a surrogate pair, a thousand levels, megabytes): then what
was sent is not shown again.
"""

from __future__ import annotations

import json
from typing import Any

from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request
from starlette.responses import Response

UNFIT = 422
SHOWN_BYTES = 64 << 10  # of an answer: more of what was sent is not shown again
MAX_PROBLEMS = 100  # told of one request: ten thousand records may all be wrong
KEPT = frozenset(("type", "loc", "msg"))


async def answer(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems: list[dict[str, Any]] = list(error.errors())[:MAX_PROBLEMS]
    try:
        body = _encoded(problems)
    except (ValueError, RecursionError):
        body = b""
    if not 0 < len(body) <= SHOWN_BYTES:
        body = _encoded([{name: value for name, value in one.items() if name in KEPT} for one in problems])
    return Response(body, UNFIT, media_type="application/json")


def _encoded(problems: list[dict[str, Any]]) -> bytes:
    text = json.dumps(
        {"detail": jsonable_encoder(problems)}, allow_nan=False, ensure_ascii=False, separators=(",", ":")
    )
    return text.encode()
