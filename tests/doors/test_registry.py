"""What is advertised is what is there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from headrace.doors.kafka import api, registry

# Kafka 4.3.1's own answer to ApiVersions.
KAFKA_4_3 = {
    0: (0, 13),
    1: (4, 18),
    2: (1, 11),
    3: (0, 13),
    8: (2, 10),
    9: (1, 10),
    10: (0, 6),
    11: (0, 9),
    12: (0, 4),
    13: (0, 5),
    14: (0, 5),
    15: (0, 6),
    16: (0, 5),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    22: (0, 5),
    23: (2, 4),
    24: (0, 5),
    25: (0, 4),
    26: (0, 5),
    27: (1, 2),
    28: (0, 5),
    32: (1, 4),
    33: (0, 2),
    34: (1, 2),
    35: (1, 5),
    37: (0, 3),
    42: (0, 2),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
    47: (0, 0),
    55: (0, 2),
    57: (0, 2),
    60: (0, 2),
    61: (0, 0),
    64: (0, 0),
    65: (0, 0),
    66: (0, 2),
    74: (0, 1),
    75: (0, 0),
}


def test_every_api_is_advertised_as_kafka_advertises_it() -> None:
    assert {key: one.advertised for key, one in registry.apis().items()} == KAFKA_4_3


def test_every_file_of_an_api_says_what_the_table_says() -> None:
    found = {}
    for file in iter_modules(api.__path__):
        said = import_module(f"{api.__name__}.{file.name}").API
        found[said.key] = said
    assert {key: one._replace(handler=None) for key, one in found.items()} == {
        key: one._replace(handler=None) for key, one in registry.apis().items()
    }


def test_the_operating_page_names_every_api() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text()
    _, _, named = page.partition("## Kafka's APIs")
    assert {one.name for one in registry.apis().values()} <= set(re.findall(r"[A-Z][A-Za-z]+", named))


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
