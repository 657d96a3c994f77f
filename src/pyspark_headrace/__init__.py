"""How Spark finds the format `headrace` by itself: it imports every package whose name begins with `pyspark_`."""

from headrace.spark.source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
