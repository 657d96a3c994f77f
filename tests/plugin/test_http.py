"""The http door of a broker under test: faults show where an operator would look."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from headrace.testing import Broker, NotRunning


def ask(broker: Broker, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://{broker.http}{path}", timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_full_disk_is_not_ready_and_an_empty_one_is_again(storage: str) -> None:
    with Broker(storage) as broker:  # type: ignore[arg-type]
        assert ask(broker, "/readyz")[0] == 200
        broker.fill_disk()
        code, answer = ask(broker, "/readyz")
        assert code == 503
        assert [check["name"] for check in json.loads(answer)["checks"] if not check["ok"]] == ["disk"]
        broker.free_disk()
        assert ask(broker, "/readyz")[0] == 200


def test_the_moved_clock_is_the_one_that_the_node_tells() -> None:
    with Broker() as broker:
        before = json.loads(ask(broker, "/healthz")[1])
        broker.clock.advance("1 day")
        after = json.loads(ask(broker, "/healthz")[1])
    assert 86_400_000 <= after["time_ms"] - before["time_ms"] < 86_460_000
    assert after["uptime_seconds"] >= 86_400


def test_it_answers_at_the_same_address_after_a_crash() -> None:
    with Broker() as broker:
        ask(broker, "/healthz")
        broker.crash()
        with pytest.raises(urllib.error.URLError):
            ask(broker, "/healthz")
        broker.restart()
        assert ask(broker, "/healthz")[0] == 200


def test_metrics_count_what_the_test_did() -> None:
    with Broker() as broker:
        broker.produce("orders", "one", "two")
        _, text = ask(broker, "/metrics/prometheus")
    assert b"headrace_" in text


def test_a_door_that_is_off_has_no_address() -> None:
    with Broker(http="off") as broker, pytest.raises(NotRunning, match="no http door"):
        _ = broker.http
