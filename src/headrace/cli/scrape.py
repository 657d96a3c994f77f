"""One request to a node's http door, with a limit on its time and on its size."""

from __future__ import annotations

import http.client

from headrace.errors import ConnectionFailed, HeadraceError

MAX_BODY_BYTES = 64 << 20  # metrics of the most partitions that have series of their own


def get(address: str, path: str, timeout_s: float) -> tuple[int, bytes]:
    """Status and body. ConnectionFailed where nothing answers there as HTTP does."""
    return ask(address, "GET", path, timeout_s)


def ask(address: str, method: str, path: str, timeout_s: float, body: bytes | None = None) -> tuple[int, bytes]:
    """As `get`; a body is JSON."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        came = answer.read(MAX_BODY_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ConnectionFailed(f"no HTTP answer from {address}: {why}") from error
    finally:
        connection.close()
    if len(came) > MAX_BODY_BYTES:
        raise HeadraceError(f"{address}{path} answers with more than {MAX_BODY_BYTES} bytes")
    return answer.status, came
