"""The request that asks for a WebSocket, and the answer that switches to it (RFC 6455, 4.2). No extension is taken up:
compressed frames would take memory that a stranger chooses.

Pages of any origin may ask, as with all requests of the door (CORS does not apply to WebSockets: the browser lets them
all through, and it would be for us to refuse). Nobody is known by what a browser sends along, so a page gains nothing
by asking from there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from websockets.utils import accept_key

from headrace.doors.http.refusals import BAD, Refused

UPGRADE_REQUIRED = 426
ASK = "this is a WebSocket: ask for it with Upgrade: websocket and Sec-WebSocket-Version: 13"
VERSION = "13"
KEY_BYTES = 16
HEAD = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: %s\r\n\r\n"
)

Headers = Sequence[tuple[bytes, bytes]]


class NotAsked(Refused):
    def __init__(self) -> None:
        super().__init__(UPGRADE_REQUIRED, ASK)
        self.headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": VERSION}


def accepted(headers: Headers, http_version: str) -> bytes:
    """The head of the answer; Refused when the request is not one that can be granted."""
    if (
        http_version != "1.1"
        or b"upgrade" not in _words(headers, b"connection")
        or _words(headers, b"upgrade") != [b"websocket"]
        or _words(headers, b"sec-websocket-version") != [VERSION.encode()]
    ):
        raise NotAsked
    if any(name in (b"content-length", b"transfer-encoding") and value != b"0" for name, value in headers):
        raise Refused(BAD, "a request for a WebSocket has no body")
    keys = [value.strip() for name, value in headers if name == b"sec-websocket-key"]
    if len(keys) != 1 or not _is_key(keys[0]):
        raise Refused(BAD, f"Sec-WebSocket-Key is {KEY_BYTES} bytes as base64")
    return HEAD % accept_key(keys[0].decode()).encode()


def _words(headers: Headers, wanted: bytes) -> list[bytes]:
    return [word.strip().lower() for name, value in headers if name == wanted for word in value.split(b",")]


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False
