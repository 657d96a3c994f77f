import asyncio

import pytest

from headrace.testing.loop import simulated_loop
from headrace.testing.network import CONNECT_TIMEOUT_S, Link, Network
from headrace.testing.stream import RETRANSMIT_S


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.heard = transport, bytearray()

    def data_received(self, data):
        self.heard += data
        self.transport.write(data)


class BufferedEcho(asyncio.BufferedProtocol):
    """With a buffer smaller than what comes, so that every delivery is taken in parts."""

    def __init__(self):
        self.buffer = bytearray(100)

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, sizehint):
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes):
        self.transport.write(bytes(self.buffer[:nbytes]))


class Collector(asyncio.Protocol):
    def __init__(self):
        self.data, self.pieces, self.wanted = bytearray(), 0, 0
        self.lost, self.paused, self.ended = None, 0, False

    def connection_made(self, transport):
        self.transport = transport
        self.done = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.data += data
        self.pieces += 1
        if self.wanted and len(self.data) >= self.wanted:
            self.enough.set_result(None)
            self.wanted = 0

    async def receive(self, count):
        self.wanted, self.enough = count, asyncio.get_running_loop().create_future()
        await self.enough

    def eof_received(self):
        self.ended = True

    def connection_lost(self, error):
        self.lost = error
        self.done.set_result(error)

    def pause_writing(self):
        self.paused += 1

    def resume_writing(self):
        self.paused -= 1


class World:
    """A server and a client on two hosts."""

    def __init__(self, loop, factory, link=None):
        self.loop, self.factory = loop, factory
        self.network = Network(loop, link)
        self.server = loop.process("server", "there")
        self.client = loop.process("client", "here")
        self.accepted = []

    def run(self, main):
        async def everything():
            await self.start_server()
            return await self.in_client(main(self))

        return self.loop.run_until_complete(everything())

    def make(self):
        self.accepted.append(self.factory())
        return self.accepted[-1]

    async def start_server(self):
        async def start():
            self.listener = await self.loop.create_server(self.make, "there", 9092)

        await self.server.run(self.loop.create_task, start())

    async def in_client(self, work):
        return await self.client.run(self.loop.create_task, work)

    async def connect(self, port=9092, factory=Collector):
        return (await self.loop.create_connection(factory, "there", port))[1]


def run(main, factory=Echo, seed=1, link=None, **options):
    with simulated_loop(seed, **options) as loop:
        result = World(loop, factory, link).run(main)
        return result, loop.trace.hash, list(loop.trace.lines)


@pytest.mark.parametrize("factory", [Echo, BufferedEcho])
@pytest.mark.parametrize("seed", range(8))
def test_what_is_written_comes_back_whole_and_in_order_in_seeded_pieces(factory, seed):
    payload = bytes(range(256)) * 200

    async def main(world):
        client = await world.connect()
        client.transport.writelines([payload[:1000], memoryview(payload)[1000:]])
        await client.receive(len(payload))
        assert client.data == payload
        return client.pieces

    assert run(main, factory, seed)[0] >= 1


def test_some_connections_are_cut_into_tiny_pieces():
    async def main(world):
        client = await world.connect()
        client.transport.write(b"x" * 1000)
        await client.receive(1000)
        return client.pieces

    pieces = [run(main, seed=seed)[0] for seed in range(20)]
    assert min(pieces) <= 2 and max(pieces) > 10


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    async def main(world):
        client = await world.connect()
        client.transport.write(b"x" * 5000)
        await asyncio.sleep(1)

    assert run(main, seed=5)[1:] == run(main, seed=5)[1:]
    assert len({run(main, seed=seed)[1] for seed in range(10)}) == 10


def test_each_end_knows_its_own_and_the_other_name_and_has_no_socket():
    async def main(world):
        client = (await world.connect()).transport
        await asyncio.sleep(0.1)
        server = world.accepted[0].transport
        assert client.get_extra_info("peername") == server.get_extra_info("sockname") == ("there", 9092)
        assert client.get_extra_info("sockname") == server.get_extra_info("peername")
        assert client.get_extra_info("socket") is None
        assert world.listener.sockets[0].getsockname() == ("there", 9092)

    run(main)


def test_nobody_listening_refuses_and_a_dead_or_cut_off_host_times_out():
    async def main(world):
        with pytest.raises(ConnectionRefusedError):
            await world.connect(port=1)
        for fault in (lambda: world.network.cut("here", "there"), lambda: world.network.cut("there", "here")):
            fault()
            before = world.loop.time()
            with pytest.raises(TimeoutError):
                await world.connect()
            assert world.loop.time() - before == pytest.approx(CONNECT_TIMEOUT_S)
            world.network.heal()
        world.network.power_off("there")
        with pytest.raises(TimeoutError):
            await world.connect()

    run(main)


def test_a_one_way_cut_lets_the_request_through_and_holds_the_answer_until_it_heals():
    async def main(world):
        client = await world.connect()
        world.network.cut("there", "here")
        client.transport.write(b"request")
        await asyncio.sleep(10)
        assert (bytes(world.accepted[0].heard), bytes(client.data)) == (b"request", b"")
        world.network.heal()
        await asyncio.sleep(1)
        assert client.data == b"request"

    run(main)


@pytest.mark.parametrize("seed", range(5))
def test_what_waited_for_a_cut_path_comes_before_what_was_on_its_way_behind_it(seed):
    async def main(world):
        client = await world.connect()
        sent = b""
        for number in range(300):
            line = b"%d " % number
            client.transport.write(line)
            sent += line
            await asyncio.sleep(0.0003)
            if number % 40 == 10:
                world.network.cut("here", "there")
            if number % 40 == 30:
                world.network.heal()
        world.network.heal()
        await asyncio.sleep(1)
        return bytes(world.accepted[0].data) == sent

    assert run(main, Collector, seed)[0]


@pytest.mark.parametrize("direction", [("here", "there"), ("there", "here")])
def test_a_cut_that_lasts_kills_the_connection(direction):
    async def main(world):
        client = await world.connect()
        world.network.cut(*direction)
        client.transport.write(b"request")
        await asyncio.sleep(RETRANSMIT_S + 1)
        assert isinstance(client.lost, TimeoutError)

    run(main)


def test_a_peer_that_does_not_read_pauses_the_writer_until_it_reads():
    async def main(world):
        client = await world.connect()
        await asyncio.sleep(0.1)
        server = world.accepted[0].transport
        server.pause_reading()
        for _ in range(100):
            client.transport.write(b"x" * 10_000)
            await asyncio.sleep(0.001)
        assert client.paused == 1 and not server.is_reading()
        held = client.transport.get_write_buffer_size()
        assert 0 < held < 1_000_000
        server.resume_reading()
        await asyncio.sleep(10)
        assert client.paused == 0 and client.transport.get_write_buffer_size() == 0
        assert len(world.accepted[0].data) == 1_000_000

    run(main, Collector)


def test_a_buffer_changed_after_it_was_written_is_sent_changed_as_uvloop_would():
    async def main(world):
        client = await world.connect()
        buffer = bytearray(b"before")
        client.transport.write(buffer)
        buffer[:] = b"after!"
        await asyncio.sleep(1)
        return bytes(client.data)

    assert run(main)[0] == b"after!"


def test_closing_sends_what_is_buffered_and_then_ends_both_sides():
    async def main(world):
        client = await world.connect()
        client.transport.write(b"x" * 500_000)
        client.transport.close()
        await asyncio.sleep(5)
        server = world.accepted[0]
        assert (len(server.data), server.ended, server.lost, client.lost) == (500_000, True, None, None)
        assert client.done.done() and server.done.done()
        assert not world.network.ends

    run(main, Collector)


def test_an_end_of_file_leaves_the_other_direction_open_when_the_protocol_says_so():
    class Answers(Collector):
        def eof_received(self):
            self.transport.write(b"got %d" % len(self.data))
            self.transport.close()
            return True

    async def main(world):
        client = await world.connect()
        client.transport.write(b"12345")
        client.transport.write_eof()
        with pytest.raises(RuntimeError):
            client.transport.write(b"more")
        await asyncio.sleep(1)
        return bytes(client.data), client.ended

    assert run(main, Answers)[0] == (b"got 5", True)


def test_an_abort_and_a_reset_are_connection_errors_at_the_other_end():
    async def main(world):
        client = await world.connect()
        client.transport.abort()
        other = await world.connect()
        await asyncio.sleep(1)
        assert client.lost is None and isinstance(world.accepted[0].lost, ConnectionResetError)
        world.network.reset(other.transport)
        await asyncio.sleep(1)
        assert isinstance(other.lost, ConnectionResetError)
        assert isinstance(world.accepted[1].lost, ConnectionResetError)

    run(main, Collector)


def test_a_killed_process_closes_its_connections_and_its_port():
    async def main(world):
        client = await world.connect()
        world.server.kill()
        await asyncio.sleep(1)
        assert client.done.done() and client.ended
        with pytest.raises(ConnectionRefusedError):
            await world.connect()

    run(main)


def test_power_loss_leaves_the_peer_half_open_until_it_sends_to_the_restarted_host():
    async def main(world):
        client = await world.connect()
        world.network.power_off("there")
        world.server.kill()
        await asyncio.sleep(10)
        assert not client.done.done()
        world.network.power_on("there")
        await asyncio.sleep(10)
        assert not client.done.done()
        client.transport.write(b"anybody there?")
        assert isinstance(await client.done, ConnectionResetError)

    run(main)


def test_a_server_that_closes_refuses_new_connections_and_waits_for_the_old():
    async def main(world):
        client = await world.connect()
        await asyncio.sleep(0.1)
        world.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await world.connect()
        waiting = world.loop.create_task(world.listener.wait_closed())
        await asyncio.sleep(10)
        assert not waiting.done()
        client.transport.close()
        await waiting

    run(main)


def test_bandwidth_makes_big_things_slow():
    async def main(world):
        client = await world.connect()
        client.transport.write(b"x" * 100_000)
        await client.receive(100_000)
        return world.loop.time()

    assert run(main, link=Link(bytes_per_s=10_000))[0] > 10


def test_asyncio_streams_work_on_it():
    async def main(world):
        reader, writer = await asyncio.open_connection("there", 9092)
        writer.write(b"hello\nworld\n")
        await writer.drain()
        lines = [await reader.readline(), await reader.readline()]
        writer.close()
        await writer.wait_closed()
        return lines

    assert run(main, BufferedEcho)[0] == [b"hello\n", b"world\n"]
