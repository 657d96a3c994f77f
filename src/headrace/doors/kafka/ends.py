"""What a connection asks of its two ends: where they are, and that bytes go out.

What is sent unseen, by the kernel itself, goes past the transport, through a pipe straight to its socket, with what
stands before and behind it; so it may only while the transport has nothing to send. What the socket does not take is
copied after all, and is the transport's.

The answer to a lone request goes that way, too: a transport gathers what is written in a turn of the loop, and sends
it at the turn's end, which is of use only to who has more to say.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.doors.kafka import pipe
from headrace.doors.kafka.limits import JOINED_BYTES
from headrace.ports import Buffer, Piece, Unseen

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

NO_SOCKET = -1


def end_of(address: object) -> tuple[str, int]:
    """Host and port, of what a transport calls an address."""
    match address:
        case (str(host), int(port), *_):
            return host, port
        case _:
            return str(address or ""), 0


def socket_of(transport: asyncio.Transport) -> int:
    """The handle of the socket under a transport; NO_SOCKET where it has none, or what goes out is changed on its
    way."""
    under = transport.get_extra_info("socket")
    if not pipe.IS_THERE or under is None or transport.get_extra_info("sslcontext") is not None:
        return NO_SOCKET
    handle: int = under.fileno()
    return handle


def send(connection: Connection, out: Sequence[Piece]) -> None:
    """Many short answers cost less as one."""
    transport, whole = connection.transport, list[Buffer]()
    for piece in out:
        if isinstance(piece, Unseen):
            _send_past(connection, out)
            return
        whole.append(piece)
    if len(whole) == 1:
        transport.write(whole[0])
    elif sum(map(len, whole)) <= JOINED_BYTES:
        transport.write(b"".join(whole))
    else:
        transport.writelines(whole)


def send_now(connection: Connection, answer: Buffer) -> None:
    """Only inside of a turn that the connection's own bytes began: that its socket is open is certain then."""
    transport, done = connection.transport, 0
    if connection.socket != NO_SOCKET and not transport.get_write_buffer_size():
        try:
            done = os.write(connection.socket, answer)
        except BlockingIOError:
            pass
        except OSError:
            connection.abort("client")
            return
    if done < len(answer):
        transport.write(memoryview(answer)[done:])


def _send_past(connection: Connection, out: Sequence[Piece]) -> None:
    done = 0
    left: list[Buffer] = []
    try:
        if connection.socket != NO_SOCKET and not connection.transport.get_write_buffer_size():
            done = connection.door.pipe.send(connection.socket, out)
        for piece in out:
            size = len(piece)
            if done < size:
                left.append(piece.rest(done) if isinstance(piece, Unseen) else memoryview(piece)[done:])
            done = max(0, done - size)
    except ConnectionError:
        connection.abort("client")
    except OSError as error:
        connection.abort("storage")
        connection.door.refused(connection, f"an answer is cut short: {error}")
    except BaseException:
        connection.abort("fault")
        raise
    else:
        if left:
            connection.transport.writelines(left)
