"""The page shows the samples as they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.spark.pipelines.kinds import KINDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pipelines.md"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_the_sample_and_the_picture_of_each_kind(kind: str) -> None:
    text = PAGE.read_text()
    assert f"```toml\n{KINDS[kind].sample}```" in text
    assert (PAGE.parent / "pictures" / f"{kind}.png").exists()
