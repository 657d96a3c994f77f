"""The door's life: it costs nothing until somebody comes, and it goes with its node."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx

from headrace.doors.http.limits import DRAIN_S
from headrace.testing.served import ServedBroker
from tests.doors_http.running import LIMIT_S, Running, running, until
from tests.support import ANYWHERE

HEAVY = {"fastapi", "uvicorn", "starlette", "pydantic", "prometheus_client", "typer", "rich", "websockets"}

START = f"""
import asyncio, sys, tempfile
sys.path.insert(0, ".")
from pathlib import Path
from tests.doors_http.running import running

async def main():
    import httpx
    before = set(sys.modules)
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder)) as web:
            await asyncio.sleep(0)
            print(sorted({HEAVY} & set(sys.modules)))
            await web.web.get("/healthz")
            print(sorted({HEAVY} & set(sys.modules)))
            await web.web.get("/metadata")
            print(sorted({HEAVY} & set(sys.modules)))
            await web.scrape()
            print(sorted({HEAVY} & set(sys.modules)))

asyncio.run(main())
"""


def test_nothing_heavy_is_imported_until_the_first_client_and_the_first_scrape() -> None:
    ended = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True)
    started, asked, routed, scraped = map(json.loads, ended.stdout.replace("'", '"').splitlines())
    assert not set(started) - {"rich"}  # httpx, our own client here, may bring rich
    assert "uvicorn" in asked
    assert not {"fastapi", "pydantic", "websockets"} & set(asked)
    assert {"fastapi", "pydantic"} <= set(routed)
    assert "prometheus_client" in set(scraped) - set(routed)


async def test_clients_that_come_while_it_loads_are_all_answered(web: Running) -> None:
    answers = await asyncio.gather(*(web.web.get("/healthz") for _ in range(20)))
    assert {answer.status_code for answer in answers} == {200}


async def test_a_stop_ends_idle_connections_and_frees_the_port(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.web.get("/healthz")
        reader, writer = await web.socket()
        address = web.at
    assert await asyncio.wait_for(reader.read(), LIMIT_S) == b""
    writer.close()
    with socket.create_server((address.host, address.port)):
        pass


async def test_a_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.web.get("/healthz")
        gate, begun = threading.Event(), threading.Event()
        space = web.space
        web.node.watch._node.disk_space = lambda: begun.set() or (gate.wait(LIMIT_S) and space)
        asked = web.begin(web.web.get("/readyz"))
        await until(begun.is_set)
        asyncio.get_running_loop().call_later(0.3, gate.set)
    answer = await asked
    assert answer.status_code == 503
    assert answer.json()["checks"][0]["why"] == "the node is stopping"
    assert not web.faults


async def test_a_stop_does_not_wait_for_a_request_that_never_ends(tmp_path: Path) -> None:
    gate, begun = threading.Event(), threading.Event()
    async with running(tmp_path) as web:
        await web.web.get("/healthz")
        web.node.watch._node.disk_space = lambda: begun.set() or (gate.wait(LIMIT_S) and None)
        asked = web.begin(web.web.get("/readyz"))
        await until(begun.is_set)
        threading.Timer(DRAIN_S + 0.5, gate.set).start()  # its thread is waited for, after the door gave up
    try:
        await asked
    except httpx.HTTPError:
        pass
    else:
        raise AssertionError("it was answered")


def test_the_ready_file_names_the_address_and_a_restart_keeps_it(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        first = broker.http
        assert httpx.get(f"http://{first}/healthz", timeout=LIMIT_S).status_code == 200
        broker.stop()
        broker.start()
        assert broker.http == first
        assert httpx.get(f"http://{first}/readyz", timeout=LIMIT_S).status_code == 200
    assert "node.fault" not in broker.log()


def test_the_door_can_be_off(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--http", "off") as broker:
        assert broker.http == "off"


def test_a_taken_port_is_named_with_the_flag_that_moves_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "headrace", "serve", "--data", str(tmp_path / "data")]
        ended = subprocess.run(
            [*command, *ANYWHERE, "--http", address], capture_output=True, text=True, timeout=LIMIT_S
        )
    assert ended.returncode
    assert f"cannot listen on {address} for http: Address already in use; --http HOST:PORT moves it" in ended.stderr
