"""What happens around a broker under test: forks, Ctrl-C, no place for temporary files, a program that just ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from headrace.testing import Broker, NoTemporaryFolder
from headrace.testing.faulty import PREFIX
from tests.support import Wire

LIMIT_S = 60.0


def python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ | environment,
    )


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_forked_child_can_talk_to_the_broker_but_not_command_or_end_it(storage: str) -> None:
    done = python(
        f"""
        import os, socket, sys
        from headrace.testing import Broker, NotRunning
        from tests.support import Wire

        with Broker("{storage}", topics=["orders"]) as broker:
            child = os.fork()
            if child == 0:
                try:
                    with Wire(broker.kafka) as wire:
                        wire.ping()
                    for command in (broker.topics, broker.crash, broker.restart, broker.fill_disk,
                                    lambda: broker.clock.advance(1), broker.drop_connections):
                        try:
                            command()
                            os._exit(2)
                        except NotRunning as error:
                            assert "belongs to process" in str(error), error
                    assert not broker.is_running
                    broker.close()
                    os._exit(0)
                except BaseException as error:
                    print(repr(error), file=sys.stderr)
                    os._exit(3)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0, status
            broker.produce("orders", "one")
            broker.restart()
            assert broker.values("orders") == [b"one"]
        print("fine")
        """
    )
    assert done.stdout == "fine\n" and done.returncode == 0, done.stderr


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_child_that_lives_on_keeps_no_port_and_no_lock(storage: str) -> None:
    done = python(
        f"""
        import os, signal, socket, time
        from headrace.testing import Broker
        from tests.support import Wire

        broker = Broker("{storage}", topics=["orders"])
        broker.start()
        wire = Wire(broker.kafka)
        wire.ping()
        host, _, port = broker.kafka.rpartition(":")
        child = os.fork()
        if child == 0:
            wire.close()
            time.sleep(60)
            os._exit(0)
        try:
            broker.restart()
            broker.crash()
            assert wire.is_closed(), "the child still holds the connection"
            broker.restart()
            broker.close()
            with socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind((host, int(port)))
                other.listen()
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        print("fine")
        """
    )
    assert done.stdout == "fine\n" and done.returncode == 0, done.stderr


def test_a_pool_of_forked_workers_produces_to_it() -> None:
    done = python(
        """
        import multiprocessing
        from headrace.testing import Broker
        from tests.support import Wire, batch_of

        def work(asked):
            address, number = asked
            with Wire(address) as wire:
                return wire.produce("orders", batch_of([b"%d" % number])).error

        with Broker(topics=["orders"]) as broker:
            with multiprocessing.get_context("fork").Pool(3) as pool:
                assert pool.map(work, [(broker.kafka, number) for number in range(12)]) == [0] * 12
            assert len(broker.values("orders")) == 12
        print("fine")
        """
    )
    assert done.stdout == "fine\n" and done.returncode == 0, done.stderr


def test_a_program_that_ends_with_its_broker_open_ends_and_leaves_nothing(tmp_path: Path) -> None:
    done = python(
        """
        from headrace.testing import Broker
        brokers = [Broker("disk"), Broker()]
        for broker in brokers:
            broker.start()
            broker.produce("orders", "one")
        print(brokers[0].data)
        """,
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_ends_a_run_and_its_brokers(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            """
            import pathlib, pytest, time

            @pytest.mark.headrace(storage="disk")
            def test_it(headrace_broker):
                headrace_broker.produce("orders", "one")
                pathlib.Path("data").write_text(headrace_broker.data)
                headrace_broker.slow_disk("1 h")
                headrace_broker.produce("orders", "never synced")
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:timeout", "test_it.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + LIMIT_S
    while not (tmp_path / "data").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2 and "KeyboardInterrupt" in out, out
    assert not Path((tmp_path / "data").read_text()).parent.exists(), "the temporary folder is gone"


def test_without_a_place_for_temporary_files_memory_works_and_disk_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nowhere = tmp_path / "a file"
    nowhere.touch()
    monkeypatch.setattr("tempfile.tempdir", str(nowhere))
    with pytest.raises(NoTemporaryFolder, match=r'TMPDIR.*storage="memory"'), Broker("disk"):
        pass
    with Broker("memory") as broker:
        broker.produce("orders", "one")
        broker.crash(power_loss=True)
        broker.restart()
        assert broker.values("orders") == [b"one"]
    with Broker("disk", data=tmp_path / "data") as broker, Wire(broker.kafka) as wire:
        wire.ping()


def test_temporary_folders_are_named_so_that_a_person_knows_whose_they_are() -> None:
    with Broker("disk") as broker:
        assert Path(broker.data).parent.name.startswith(PREFIX)
