"""Ready pipelines from topics to topics and files, each restartable with exactly-once results.

From one TOML file (`headrace pipeline run FILE`, see settings.py) or from Python:

    from headrace.spark import pipelines

    pipelines.run(spark, pipelines.load("orders.toml"))

The steps alone are functions from frame to frame, for any query: `frame.transform(pipelines.dedup(by=["id"]))`.
"""

from __future__ import annotations

from headrace.spark import IS_INSTALLED
from headrace.spark.pipelines.settings import Settings, load, parse, settings_of

if IS_INSTALLED:  # without Spark a pipeline's file can be read, and no more
    from headrace.spark.pipelines.run import Report, run, state_of, stop
    from headrace.spark.pipelines.session import session
    from headrace.spark.pipelines.steps import dedup, order, rollup

__all__ = [
    "Report",
    "Settings",
    "dedup",
    "load",
    "order",
    "parse",
    "rollup",
    "run",
    "session",
    "settings_of",
    "state_of",
    "stop",
]
