"""What goes wrong on the way between Spark and a broker, and is not the broker's own error."""

from __future__ import annotations

from headrace.errors import HeadraceError


class InvalidOption(HeadraceError):
    """An option that there is not, or a value that it does not take."""


class DataLost(HeadraceError):
    """Records that were to be read are not there any more."""


class CheckpointTooOld(HeadraceError):
    """A stream goes on from before what it has written."""


class JavaMissing(HeadraceError):
    """Spark runs on Java, and there is none that it can use."""


class SparkDidNotStart(HeadraceError):
    """Java is there, and Spark did not come up in it."""
