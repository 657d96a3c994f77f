"""What a connection asks of its two ends: where they are, and that bytes go out.

What is sent unseen, by the kernel itself, goes past the transport, straight to its socket, with what stands before and
behind it; so it may only while the transport has nothing to send. What stands before it leaves together with it; to
hold back its end too, with TCP_CORK, was measured and is dearer. What the socket does not take is copied after all, and
is the transport's.

The answer to a lone request goes that way, too: a transport gathers what is written in a turn of the loop, and sends
it at the turn's end, which is of use only to who has more to say.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.doors.kafka.limits import JOINED_BYTES
from headrace.ports import Buffer, Piece, Unseen

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

NO_SOCKET = -1
_MORE: int = getattr(socket, "MSG_MORE", 0)  # where there is none, nothing is sent past the transport


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
    if not _MORE or under is None or transport.get_extra_info("sslcontext") is not None:
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
    place = done = 0
    left: list[Buffer] = []
    try:
        if connection.socket != NO_SOCKET and not connection.transport.get_write_buffer_size():
            place, done = _push(connection.socket, out)
        for piece in out[place:]:
            left.append(piece.rest(done) if isinstance(piece, Unseen) else memoryview(piece)[done:])
            done = 0
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


def _push(handle: int, out: Sequence[Piece]) -> tuple[int, int]:
    """As much as the socket takes, or the kernel would send: how many pieces, and how much of the next one."""
    place = done = 0
    link = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, handle)  # all named: it asks for less
    try:
        while place < len(out):
            piece = out[place]
            try:
                if isinstance(piece, Unseen):
                    done += piece.send(handle, done)
                else:
                    done += link.send(memoryview(piece)[done:], _MORE if place + 1 < len(out) else 0)
            except ConnectionError:
                raise
            except OSError:  # it is full; or it cannot be sent so, and whether it can be read, `rest` will tell
                break
            if done == len(piece):
                place, done = place + 1, 0
    finally:
        link.detach()  # it is the transport's to close
    return place, done
