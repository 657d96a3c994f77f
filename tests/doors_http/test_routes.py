"""The pages: what each answers, and what is answered where there is none."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.doors_http.running import Running

PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"


async def test_the_index_names_pages_that_exist(web: Running) -> None:
    told = (await web.web.get("/")).json()
    assert told["name"] == "headrace"
    for page in told["pages"]:
        assert (await web.web.get(page)).status_code == 200


async def test_openapi_describes_every_page(web: Running) -> None:
    told = (await web.web.get("/openapi.json")).json()
    assert {"/", "/healthz", "/readyz", "/metrics", "/metrics/prometheus"} <= set(told["paths"])
    assert {"Health", "Readiness", "Check", "Summary"} <= set(told["components"]["schemas"])
    assert "503" in told["paths"]["/readyz"]["get"]["responses"]


async def test_openapi_has_an_example_for_every_body_and_answer(web: Running) -> None:
    told = (await web.web.get("/openapi.json")).json()
    missing = []
    for path, operations in told["paths"].items():
        for method, operation in operations.items():
            bodies = {"request": operation["requestBody"]} if "requestBody" in operation else {}
            for where, body in (bodies | operation["responses"]).items():
                for kind, content in body.get("content", {}).items():
                    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                    schema = told["components"]["schemas"].get(name, content.get("schema", {}))
                    is_text = kind in ("text/plain", "application/openmetrics-text")  # a page of metrics
                    if where != "422" and not is_text and not {"example", "examples"} & {*content, *schema}:
                        missing.append((method, path, where, kind))
    assert not missing


@pytest.mark.parametrize(("method", "page", "status"), [("GET", "/nowhere", 404), ("POST", "/healthz", 405)])
async def test_an_error_is_json_with_a_detail(web: Running, method: str, page: str, status: int) -> None:
    answer = await web.web.request(method, page)
    assert answer.status_code == status
    assert list(answer.json()) == ["detail"]


@pytest.mark.parametrize("accept", ["*/*", "application/json", "text/html,*/*;q=0.8", "text/plain;q=0.1,*/*", ""])
async def test_metrics_are_a_summary_for_whoever_does_not_prefer_text(web: Running, accept: str) -> None:
    await web.create("b")
    await web.create("a")
    await web.create("__internal")
    answer = await web.web.get("/metrics", headers={"accept": accept})
    told = answer.json()
    assert told.pop("gossip")["metadata"]["topics"] == {"a": [0], "b": [0]}
    assert told == {"broker_id": 0, "leases": {}, "owned_topics": ["a", "b"]}


@pytest.mark.parametrize("accept", ["text/plain", "text/plain;version=0.0.4,*/*;q=0.1", "*/*;q=0.2,TEXT/PLAIN ; q=0.3"])
async def test_metrics_are_text_for_whoever_prefers_it(web: Running, accept: str) -> None:
    answer = await web.web.get("/metrics", headers={"accept": accept})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert list(parse_text(answer.text))


async def test_prometheus_gets_openmetrics_which_it_likes_best(web: Running) -> None:
    for page in ("/metrics", "/metrics/prometheus"):
        answer = await web.web.get(page, headers={"accept": PROMETHEUS})
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert list(parse_openmetrics(answer.text))


async def test_every_answer_has_a_date_and_no_server(web: Running) -> None:
    answer = await web.web.get("/healthz")
    assert "date" in answer.headers
    assert "server" not in answer.headers
