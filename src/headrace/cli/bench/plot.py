"""A run as a picture: the rate over time, and the share of records within each latency. matplotlib is an extra."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from headrace.cli.bench.figures import Meter
from headrace.cli.exits import Refusal, usage

ENDINGS = (".png", ".svg", ".pdf")
SIZE_INCHES = (11, 4)


def check(name: str) -> None:
    """Before the work, not after it: a plot that cannot be made is said at once."""
    if not name.lower().endswith(ENDINGS):
        raise usage(f"{name!r} does not tell what picture it shall be", f"a name that ends in {', '.join(ENDINGS)}")
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise usage(f"there is no folder {folder}", "make it, or name another")
    _pyplot()


def draw(name: str, meters: Sequence[Meter], title: str) -> None:
    pyplot = _pyplot()
    figure, (over_time, spread) = pyplot.subplots(1, 2, figsize=SIZE_INCHES, constrained_layout=True)
    figure.suptitle(title)
    for meter in meters:
        over_time.plot(*meter.series.rates(), label=meter.work, drawstyle="steps-post")
        if meter.latencies_ms:
            ordered = sorted(meter.latencies_ms)
            spread.plot(ordered, [(at + 1) / len(ordered) for at in range(len(ordered))], label=meter.work)
    over_time.set(xlabel="seconds", ylabel="records per second", ylim=(0, None))
    spread.set(xlabel="latency, ms", ylabel="share of records", ylim=(0, 1))
    if any(meter.latencies_ms for meter in meters):
        spread.set_xscale("log")
    for axes in (over_time, spread):
        axes.grid(alpha=0.3)
        if axes.lines:
            axes.legend()
    figure.savefig(name)
    pyplot.close(figure)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise Refusal("a plot needs matplotlib, which is not installed", "pip install 'headrace[plot]'") from None
    matplotlib.use("Agg")  # a file, never a window
    from matplotlib import pyplot

    return pyplot
