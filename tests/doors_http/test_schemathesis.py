"""The OpenAPI document against the door: whatever it says may be sent is answered as it says, and nothing is a fault.

Requests are made from the document, fitting and unfitting ones, and every answer has to have a status, a type and a
shape that the document declares for the route.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from headrace.doors.http.described import described
from headrace.doors.http.polling import Positions
from headrace.testing import Broker
from tests.doors_lines.kit import Peer

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 25  # of each route: a look at every kind of value, in seconds
LIMIT_S = 30.0
LOCK_S = 30  # that a member has for a record
DEAD, LEAVING = "/queues/lines/jobs/workers/dead", "/queues/lines/jobs/leaving"
GROUPS = ("workers", "leaving", "staying")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """With queues: one has a dead letter, one can be deleted, and one cannot, as somebody is in it."""
    with Broker() as found, Peer(found.addresses["lines"]) as staying:
        found.create_topic("jobs", 1, {"headrace.queue.max.attempts": 1})
        assert staying.ask(b"SUB jobs staying").startswith(b"OK")
        with Peer(found.addresses["lines"]) as silent, Peer(found.addresses["lines"]) as leaving:
            assert silent.ask(b"SUBACK jobs workers").startswith(b"OK")
            assert leaving.ask(b"SUB jobs leaving").startswith(b"OK")
            found.produce("jobs", "work")
            silent.message()
            found.clock.advance(LOCK_S + 1)
            until(lambda: bool(httpx.get(f"http://{found.http}{DEAD}", timeout=LIMIT_S).json()["dead"]))
        until(lambda: not httpx.get(f"http://{found.http}{LEAVING}", timeout=LIMIT_S).json()["members"])
        yield found


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def address(broker: Broker) -> str:
    address = f"http://{broker.http}"
    for name, partitions in (("orders", 1), ("several", 3)):
        asked = {"name": name, "partitions": partitions}
        httpx.post(f"{address}/admin/topics", params=asked, timeout=LIMIT_S)
    return address


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


def document() -> dict[str, Any]:
    """What the door serves, without a door: routes are made from it before any is there."""
    nobody: Any = SimpleNamespace(broker=SimpleNamespace(queues=None), watch=None)
    return described(nobody, Positions(nobody)).openapi()


# A stream has no end; what it answers is looked at in its own tests.
schema = schemathesis.openapi.from_dict(document()).exclude(path="/topics/{topic}/stream")


def test_the_document_is_the_one_that_the_door_serves(address: str) -> None:
    assert httpx.get(f"{address}/openapi.json", timeout=LIMIT_S).json() == json.loads(json.dumps(document()))


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
def test_every_answer_is_as_the_document_says(case: schemathesis.Case, address: str) -> None:
    ask(case, address)
    if "group" in case.path_parameters:
        ask_of_queues(case, address)
        return
    for topic in ("orders", "several"):  # which there are: made up names are hardly ever
        if "topic" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["topic"] = topic
            ask(case, address)
        if isinstance(case.query, dict) and "topic" in case.query:
            case.query["topic"] = topic
            ask(case, address)
        if isinstance(case.body, dict) and "topic" in case.body:
            case.body["topic"] = topic
            ask(case, address)


def ask_of_queues(case: schemathesis.Case, address: str) -> None:
    for group in GROUPS if case.method != "DELETE" else GROUPS[1:]:
        case.path_parameters.update(door="lines", topic="jobs", group=group)
        ask(case, address)
        if case.path.endswith("/dead") and group == "workers":  # what was delivered again is shown only with all
            found = httpx.get(f"{address}{DEAD}", params={"all": True}, timeout=LIMIT_S)
            assert len(found.json()["dead"]) == 1
            case.query = {"all": True}
            ask(case, address)


def test_a_queue_is_deleted_when_nobody_is_in_it(address: str) -> None:
    """The requests that are made up may meet either."""
    statuses = [httpx.delete(f"{address}/queues/lines/jobs/{name}", timeout=LIMIT_S).status_code for name in GROUPS[1:]]
    assert statuses[0] in (200, 404)
    assert statuses[1] == 409


def test_no_answer_is_declared_that_nothing_gives() -> None:
    assert "409" not in document()["paths"]["/queues/{door}/{topic}/{group}/redeliver"]["post"]["responses"]


def ask(case: schemathesis.Case, address: str) -> None:
    if case.path == "/poll" and str(case.query.get("timeout_ms", "15000")).isdigit():
        case.query["timeout_ms"] = 1
    case.call_and_validate(base_url=address, checks=CHECKS, timeout=LIMIT_S)
