"""What is advertised is what is there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace.doors.kafka import registry

# Kafka 4.3.1's own answer to ApiVersions.
KAFKA_4_3 = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    10: (0, 6),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    22: (0, 5),
    23: (2, 4),
}


def test_every_api_is_advertised_as_kafka_advertises_it() -> None:
    assert {key: api.advertised for key, api in registry.apis().items()} == KAFKA_4_3


def test_produce_before_version_3_is_advertised_and_not_served() -> None:
    assert registry.lookup(0, 3) is not None
    assert registry.lookup(0, 2) is None


@pytest.mark.parametrize(("key", "version"), [(999, 0), (3, 99), (3, -1), (1, 3), (22, 6), (-1, 0)])
def test_what_is_not_there_is_not_found(key: int, version: int) -> None:
    assert registry.lookup(key, version) is None


@pytest.mark.parametrize("version", [5, 127, 32767, -1])
def test_api_versions_is_found_in_any_version(version: int) -> None:
    assert registry.lookup(18, version) is not None


def test_the_way_to_the_first_acknowledgement_does_not_import_kio() -> None:
    """ApiVersions, Metadata, InitProducerId, Produce: importing kio takes as long as the rest of a start."""
    code = "import sys; from headrace.doors.kafka.registry import apis; apis(); print('kio' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], check=True, env=environment, capture_output=True)
    assert run.stdout.strip() == b"False"
