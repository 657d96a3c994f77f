"""The sync face, on Headrace and on Apache Kafka alike; and what threads and processes may do with it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import headrace
from headrace import errors

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headrace-client"]


def test_records_go_there_and_back_and_no_thread_stays(address: str, topic: str) -> None:
    before = client_threads()
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, partitions=2)
        with client.producer() as producer:
            first = producer.send(topic, "one", key="k", headers=[("h", b"1")])
            futures = [producer.put(topic, b"%d" % number, partition=0) for number in range(5_000)]
            producer.flush()
            assert all(future.done() for future in futures)
        with client.consumer(topic, follow=False) as consumer:
            got = list(consumer)
        (mine,) = [record for record in got if record.key == b"k"]
        assert (mine.partition, mine.offset, mine.value, mine.headers) == (*first[1:3], b"one", (("h", b"1"),))
        values = [record.value for record in got if record.key is None]
        assert values == [b"%d" % number for number in range(5_000)]
    assert client_threads() == before
    with pytest.raises(errors.ClientClosed):
        client.admin.topics()


def test_administration_keeps_its_client_alive_and_no_longer(headrace_address: str) -> None:
    before = client_threads()
    for _ in range(3):
        found = headrace.connect(headrace_address).admin.topics()  # not in the assert, which would keep the client too
        assert isinstance(found, list)
    assert client_threads() == before


def test_producer_and_consumer_stand_alone(address: str, topic: str) -> None:
    with headrace.Producer(address, compression="lz4") as producer:
        producer.send(topic, "a")
        producer.put(topic, "b")
    with headrace.Consumer(address, topic, follow=False) as consumer:
        assert [record.value for record in consumer] == [b"a", b"b"]
        assert consumer.is_done and list(consumer) == []


def test_the_reader_knows_where_it_stands_among_what_was_read_ahead(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        client.admin.create_topic(topic, partitions=2)
        with client.producer() as producer:
            for number in range(100):
                producer.put(topic, b"%d" % number, partition=number % 2)
        with client.consumer(topic) as consumer:
            assert set(consumer.assignment) == {(topic, 0), (topic, 1)}
            first = next(consumer)
            assert consumer.position(topic, first.partition) == 1
            consumer.pause(topic, 1 - first.partition)
            rest = consumer.take(1000, timeout=10)
            assert [record.partition for record in rest] == [first.partition] * len(rest)
            consumer.seek(topic, first.partition, 40)
            assert next(consumer).offset == 40
            consumer.assign({(topic, 1): 49})
            assert next(consumer).value == b"99"
            assert consumer.take(timeout=0.1) == []


def test_batches_and_administration_without_await(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        made = client.admin.create_topic(topic, partitions=1)
        with client.producer() as producer:
            producer.send(topic, b"x")
        (batch,) = client.batches(topic, 0)
        assert client.produce_batches(topic, 0, batch) in (0, 1)  # idempotent: a broker may know it already
        assert made.name in [found.name for found in client.admin.topics()]
        assert client.admin.offsets(topic, "start")[0].offset == 0
        client.admin.delete_topic(topic)


def test_a_failure_of_what_was_put_is_told_by_the_future_and_by_flush(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic, partitions=1, config={"max.message.bytes": "1000"})
        with client.producer() as producer:
            future = producer.put(topic, bytes(5000))
            with pytest.raises(errors.MessageTooLarge):
                future.result(10)
            with pytest.raises(errors.DeliveryFailed, match="1 record was not delivered"):
                producer.flush()
            with pytest.raises(TypeError, match="not int"):
                producer.put(topic, 5).result(10)  # type: ignore[arg-type]
            producer.flush()


def test_a_record_that_finds_no_partition_is_told_by_flush_too(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic, partitions=1)
        with client.producer() as producer:
            producer.put(topic, b"nowhere", partition=2)
            with pytest.raises(errors.DeliveryFailed, match="1 record was not delivered"):
                producer.flush()


@pytest.mark.parametrize(
    "wrong", [{"value": 5}, {"value": b"", "key": 1.5}, {"headers": [(b"h", b"v")]}, {"key": "\ud800"}]
)
def test_what_is_not_a_record_is_refused_where_it_is_put(
    headrace_address: str, topic: str, wrong: dict[str, Any]
) -> None:
    with (
        headrace.connect(headrace_address) as client,
        client.producer() as producer,
        pytest.raises((TypeError, UnicodeEncodeError)),
    ):
        producer.put(topic, **wrong)


def test_whatever_a_record_fails_with_is_told_by_flush_too(headrace_address: str, topic: str) -> None:
    def choose(key: bytes | None, count: int) -> int:
        raise LookupError("no partition for this one")

    with headrace.connect(headrace_address) as client, client.producer(partitioner=choose) as producer:
        future = producer.put(topic, b"x")
        with pytest.raises(errors.DeliveryFailed, match=r"1 record was not delivered.*no partition for this one"):
            producer.flush()
        assert isinstance(future.exception(), LookupError)


def test_what_was_put_may_be_changed_by_its_owner_afterwards(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        with client.producer() as producer:
            page = bytearray(b"before")
            producer.put(topic, page)
            page[:] = b"after."
        with client.consumer(topic, follow=False) as consumer:
            assert [record.value for record in consumer] == [b"before"]


@pytest.mark.parametrize("is_known", [True, False])
def test_closing_the_client_sends_what_was_put_before(headrace_address: str, topic: str, is_known: bool) -> None:
    with headrace.connect(headrace_address) as client:
        producer = client.producer(buffer_bytes=100_000, batch_bytes=20_000)
        if is_known:
            producer.send(topic, b"known")
        futures = [producer.put(topic, bytes(1_000), partition=0) for _ in range(500)]
    assert [future.result(0).offset for future in futures] == list(range(is_known, 500 + is_known))
    with pytest.raises(errors.ClientClosed):
        producer.put(topic, b"late")


def test_what_the_loop_did_not_take_before_it_ended_fails(headrace_address: str, topic: str) -> None:
    client = headrace.connect(headrace_address)
    producer = client.producer()
    client._portal.soon(lambda: time.sleep(0.2))
    futures = [producer.put(topic, b"x") for _ in range(10)]
    client._portal.stop()
    assert all(isinstance(future.exception(5), errors.ClientClosed) for future in futures)
    with pytest.raises(errors.ClientClosed):
        producer.put(topic, b"late")


def test_many_threads_share_one_producer(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        client.admin.create_topic(topic, partitions=1)
        with client.producer() as producer:

            def put(name: int) -> None:
                for number in range(500):
                    producer.put(topic, b"%d-%d" % (name, number))

            threads = [threading.Thread(target=put, args=(name,)) for name in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            producer.flush()
        with client.consumer(topic, follow=False) as consumer:
            got = [tuple(map(int, (record.value or b"").split(b"-"))) for record in consumer]
    assert len(got) == 4_000
    for name in range(8):
        assert [number for who, number in got if who == name] == list(range(500))


def test_a_client_from_before_a_fork_says_so_in_the_child(headrace_address: str) -> None:
    with headrace.connect(headrace_address) as client:
        child = os.fork()
        if child == 0:
            try:
                client.admin.topics()
            except errors.ClientClosed as error:
                os._exit(7 if "fork" in str(error) else 8)
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        client.admin.topics()


def test_a_program_that_forgets_to_close_ends_all_the_same(headrace_address: str) -> None:
    code = f"import headrace; client = headrace.connect({headrace_address!r}); print(len(client.admin.cluster().nodes))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_program_that_forgets_to_close_has_sent_what_it_put(headrace_address: str, topic: str) -> None:
    code = (
        f"import headrace; producer = headrace.Producer({headrace_address!r}, linger=60)\n"
        f"for number in range(3000): producer.put({topic!r}, str(number), partition=0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    with headrace.Consumer(headrace_address, topic, follow=False) as consumer:
        assert [int(record.value or b"") for record in consumer] == list(range(3000))


def test_the_package_imports_no_client_until_one_is_used() -> None:
    code = (
        "import sys, headrace; assert not any(name.startswith('headrace.client') for name in sys.modules);"
        "assert headrace.connect and headrace.aio.connect and 'Producer' in dir(headrace);"
        "assert 'kio' not in sys.modules and 'uvloop' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
