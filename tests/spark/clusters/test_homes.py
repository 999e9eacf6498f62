"""On a cluster, channels run where their local copies are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from homes_job import keys
from test_standalone import check

AT_HOME = [3, "copy", "copy", "copy"]


def run(folder: Path, mode: str) -> dict:
    command = [sys.executable, str(Path(__file__).with_name("homes_job.py")), str(folder), mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    story = json.loads(done.stdout.splitlines()[-1])
    print(story)
    batches = sum(len(chapter) for chapter in story.values() if isinstance(chapter, list))
    check(folder / "out", [keys(batch_id) for batch_id in range(batches)])
    return story


@pytest.mark.spark
@pytest.mark.slow
def test_channels_find_their_copies_batch_after_batch(tmp_path: Path) -> None:
    """Also after a rest in which nothing was cached; after a kill, a channel reads its state once."""
    story = run(tmp_path, "homes")
    assert story["first"] == [[3, "new", "new", "new"]]
    assert story["then"] == [AT_HOME] * 6
    assert story["cached"] == 1, "homes, and no packs"
    assert story["after a rest"] == [AT_HOME] * 2
    assert story["killed"]
    found = [each for batch in story["after a kill"] + story["complete again"] for each in batch[1:]]
    assert "store" in found, "nobody lost a copy"
    assert story["at last"] == [AT_HOME] * 3


@pytest.mark.spark
@pytest.mark.slow
def test_without_homes_they_do_not(tmp_path: Path) -> None:
    story = run(tmp_path, "anywhere")
    assert {batch[0] for batch in story["then"]} == {0}
    assert any(each != "copy" for batch in story["then"] for each in batch[1:])
