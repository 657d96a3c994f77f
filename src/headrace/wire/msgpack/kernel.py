"""The kernels in use: native where the wheel is there and fits, else the Python twin, as for records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.records.kernel import NATIVE

if TYPE_CHECKING or not NATIVE:
    from headrace.wire.msgpack.twin import commands, deliveries, records, smallest
else:
    from headrace_native import msgpack_commands as commands
    from headrace_native import msgpack_deliveries as deliveries
    from headrace_native import msgpack_records as records
    from headrace_native import msgpack_smallest as smallest

__all__ = ["commands", "deliveries", "records", "smallest"]
