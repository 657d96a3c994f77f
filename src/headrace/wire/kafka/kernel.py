"""The kernels in use: native where the wheel is there and fits, else the Python twin, as for records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.records.kernel import NATIVE

if TYPE_CHECKING or not NATIVE:
    from headrace.wire.kafka.fetch_single import decode_single as single_fetch
    from headrace.wire.kafka.fetch_single import single_head as single_fetch_head
    from headrace.wire.kafka.twin import single, single_answer
else:
    from headrace_native import kafka_single as single
    from headrace_native import kafka_single_answer as single_answer
    from headrace_native import kafka_single_fetch as single_fetch
    from headrace_native import kafka_single_fetch_head as single_fetch_head

__all__ = ["single", "single_answer", "single_fetch", "single_fetch_head"]
