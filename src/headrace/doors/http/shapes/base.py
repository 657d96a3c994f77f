"""What all shapes are made of, and the shape of a refusal.

`Shape` with `example=...` in the class line gets that example into the OpenAPI document.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

MAX_OFFSET = (1 << 63) - 1
Documented = dict[int | str, dict[str, Any]]


class Shape(BaseModel):
    def __init_subclass__(cls, example: dict[str, Any] | None = None, **more: Any) -> None:
        if example is not None:
            cls.model_config = ConfigDict(json_schema_extra={"examples": [example]})
        super().__init_subclass__(**more)


class Refusal(Shape, example={"detail": "Topic not found"}):
    """Why not, in words. Some refusals are for programs: then `detail` has an `error` and what goes with it."""

    detail: str | dict[str, Any]


def refusals(**texts: str | dict[str, Any]) -> Documented:
    """For a route's `responses`: `refusals(_404="Topic not found")`; several texts of one status are joined by `|`."""
    return {
        int(status.removeprefix("_")): {
            "model": Refusal,
            "description": detail if isinstance(detail, str) else detail["error"],
            "content": {"application/json": {"example": {"detail": detail}}},
        }
        for status, detail in texts.items()
    }


def example(shown: Any) -> dict[str, Any]:
    """For a route's `responses`."""
    return {"content": {"application/json": {"example": shown}}}


EVERYWHERE = refusals(
    _400="the request cannot be read, or not be granted as it is",
    _413="a request's body has at most 8388608 bytes",
    _503="the node is stopping",
)
"""What any route may answer besides its own."""
