"""What the doctor finds: one condition, what it should be, what it is, and what to do about it.

A finding names the cause, never only the symptom: `found` is what was seen, `advice` what to do next. Results:

- ok: as it has to be;
- warning: it works, and will be regretted;
- failed: it does not work, or loses data, or clients will not reach it;
- unknown: it could not be seen from here; `found` says why.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Result = Literal["ok", "warning", "failed", "unknown"]


class Finding(msgspec.Struct, frozen=True):
    condition: str
    required: str
    found: str
    result: Result
    advice: str = ""


def ok(condition: str, required: str, found: str) -> Finding:
    return Finding(condition, required, found, "ok")


def warning(condition: str, required: str, found: str, advice: str) -> Finding:
    return Finding(condition, required, found, "warning", advice)


def failed(condition: str, required: str, found: str, advice: str) -> Finding:
    return Finding(condition, required, found, "failed", advice)


def unknown(condition: str, required: str, found: str, advice: str = "") -> Finding:
    return Finding(condition, required, found, "unknown", advice)
