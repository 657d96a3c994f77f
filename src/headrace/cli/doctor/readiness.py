"""What a node says of itself at its http door: ready, or why not."""

from __future__ import annotations

import msgspec

from headrace.cli import scrape
from headrace.cli.doctor.finding import Finding, failed, ok, unknown
from headrace.errors import HeadraceError

READY = "node ready"
_OK, _UNREADY = 200, 503


class OneCheck(msgspec.Struct, frozen=True):
    name: str
    ok: bool
    why: str = ""


class Readiness(msgspec.Struct, frozen=True):
    checks: list[OneCheck]


def check(http: str, timeout_s: float) -> Finding:
    required = f"http://{http}/readyz says so"
    try:
        status, body = scrape.get(http, "/readyz", timeout_s)
    except HeadraceError as error:
        return unknown(READY, required, str(error))
    if status == _OK:
        return ok(READY, required, "yes")
    if status == _UNREADY:
        return failed(READY, required, _reasons(body), "the node says itself why; its log has more")
    return unknown(READY, required, f"HTTP status {status}")


def _reasons(body: bytes) -> str:
    try:
        checks = msgspec.json.decode(body, type=Readiness).checks
    except msgspec.MsgspecError:
        return body[:200].decode(errors="replace")
    return "; ".join(f"{check.name}: {check.why}" for check in checks if not check.ok)
