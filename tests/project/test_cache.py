"""What tests and benchmarks fetch once, whoever comes first and however many come at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bench.cache import kept


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headrace-bench"


def test_of_those_who_come_at_once_one_fetches_and_all_have_it() -> None:
    fetched, found = [], []

    def fill(folder: Path) -> None:
        fetched.append(folder)
        time.sleep(0.1)
        (folder / "program").write_text("whole")

    def ask() -> None:
        found.append((kept("server-1", fill) / "program").read_text())

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(fetched), found) == (1, ["whole"] * 5)


def test_what_failed_or_was_cut_short_leaves_nothing_and_is_fetched_again(cache: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        kept("server-1", fail)
    (cache / "server-1.fresh").mkdir()  # as one that was killed leaves it
    (cache / "server-1.fresh" / "half").touch()
    folder = kept("server-1", lambda fresh: (fresh / "program").touch())
    assert [path.name for path in folder.iterdir()] == ["program"]
