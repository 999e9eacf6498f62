"""Spark's logs, as written by hand here and by Spark itself in `test_tick`."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.errors import CheckpointError
from unskew.spark.offsets import (
    LocalFiles,
    find_tick,
    last_committed,
    next_watermark_ms,
    only_tick_advanced,
    read_facts,
    watermark_ms,
)
from unskew.state.files import Files

HEADER = '{"batchWatermarkMs":1000,"batchTimestampMs":2000,"conf":{"a":"b"}}'


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
    (tmp_path / "metadata").write_text('{"id":"one"}')
    return LocalFiles(f"file:{tmp_path}")


def offsets(files: LocalFiles, batch_id: int, *sources: str, version: str = "v1") -> None:
    (files.place / f"offsets/{batch_id}").write_text("\n".join([version, HEADER, *sources]))


def test_facts_are_read(files: LocalFiles) -> None:
    offsets(files, 3, '{"logOffset":3}', "-", '{"unskew_tick":1}')
    facts = read_facts(files, 3)
    assert (facts.batch_id, facts.watermark_ms, facts.time_ms) == (3, 1000, 2000)
    assert facts.sources == ('{"logOffset":3}', "-", '{"unskew_tick":1}')
    assert find_tick(facts) == 2
    assert watermark_ms(files, 3) == 1000


def test_files_elsewhere_are_read_alike(files: LocalFiles) -> None:
    offsets(files, 3, '{"logOffset":3}')
    (files.place / "commits/3").write_text('v1\n{"nextBatchWatermarkMs":5}')
    elsewhere = Files(str(files.place))
    assert read_facts(elsewhere, 3) == read_facts(files, 3)
    assert last_committed(elsewhere) == 3
    with pytest.raises(CheckpointError, match="offsets/4"):
        read_facts(elsewhere, 4)


def test_named_sources_are_put_in_order(files: LocalFiles) -> None:
    offsets(files, 0, '1:{"logOffset":3}', 'unskew_tick:{"unskew_tick":1}', '0:{"logOffset":8}', version="v2")
    facts = read_facts(files, 0)
    assert facts.sources == ('0:{"logOffset":8}', '1:{"logOffset":3}', 'unskew_tick:{"unskew_tick":1}')
    assert find_tick(facts) == 2


def test_the_fingerprint_tells_queries_and_offsets_apart(files: LocalFiles) -> None:
    offsets(files, 0, '{"logOffset":0}')
    first = read_facts(files, 0).fingerprint
    assert read_facts(files, 0).fingerprint == first
    int(first, 16)
    offsets(files, 0, '{"logOffset":1}')
    second = read_facts(files, 0).fingerprint
    (files.place / "metadata").write_text('{"id":"two"}')
    assert len({first, second, read_facts(files, 0).fingerprint}) == 3


def test_only_the_tick_has_advanced(files: LocalFiles) -> None:
    offsets(files, 0, '{"logOffset":0}', "-")
    offsets(files, 1, '{"logOffset":0}', '{"unskew_tick":1}')
    offsets(files, 2, '{"logOffset":1}', '{"unskew_tick":2}')
    offsets(files, 3, "-", '{"unskew_tick":1}')
    zero, one, two, three = (read_facts(files, batch) for batch in range(4))
    assert only_tick_advanced(zero, one, 1)
    assert only_tick_advanced(zero, one, -1)
    assert not only_tick_advanced(one, two, 1)
    assert not only_tick_advanced(None, zero, 1)
    assert only_tick_advanced(None, three, 1)


def test_another_number_of_sources_is_refused(files: LocalFiles) -> None:
    offsets(files, 0, "a")
    offsets(files, 1, "a", "b")
    with pytest.raises(CheckpointError, match="there are 2 sources, and 1 in the batch before"):
        only_tick_advanced(read_facts(files, 0), read_facts(files, 1), 0)


def test_a_checkpoint_without_a_tick_is_refused(files: LocalFiles) -> None:
    offsets(files, 0, '{"logOffset":0}')
    with pytest.raises(CheckpointError, match=r"the batch has 0 ticks of unskew.*offsets/0"):
        find_tick(read_facts(files, 0))


def test_the_next_watermark_is_in_the_commit(files: LocalFiles) -> None:
    (files.place / "commits/0").write_text('v1\n{"nextBatchWatermarkMs":5}')
    (files.place / "commits/10").write_text('v2\n{"nextBatchWatermarkMs":6,"stateUniqueIds":{}}')
    (files.place / "commits/.11.crc").write_text("")
    assert [next_watermark_ms(files, batch) for batch in (0, 10)] == [5, 6]
    assert last_committed(files) == 10


def test_a_new_checkpoint_has_no_commits(tmp_path: Path) -> None:
    assert last_committed(LocalFiles(str(tmp_path / "none"))) == -1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, r"is missing .*offsets/0"),
        (b"\xff\xfe", r"is not text.*offsets/0"),
        (b"", r"unknown version, got ''.*offsets/0"),
        (b"v9\n{}", r"unknown version, got 'v9'.*offsets/0"),
        (b"v1", r"ends too soon.*offsets/0"),
        (b"v1\n{", r"is not JSON.*offsets/0"),
        (b"v1\n[]", r"no JSON object.*offsets/0"),
        (b"v1\n{}", r"no valid batchWatermarkMs.*offsets/0"),
        (b'v1\n{"batchWatermarkMs":1}', r"no valid batchTimestampMs.*offsets/0"),
    ],
)
def test_what_is_not_understood_is_named(files: LocalFiles, content: bytes | None, complaint: str) -> None:
    if content is not None:
        (files.place / "offsets/0").write_bytes(content)
    with pytest.raises(CheckpointError, match=complaint):
        read_facts(files, 0)


def test_the_query_must_have_an_id(files: LocalFiles) -> None:
    offsets(files, 0, "-")
    (files.place / "metadata").write_text("{}")
    with pytest.raises(CheckpointError, match=r"no valid id .*metadata"):
        read_facts(files, 0)


def test_a_batch_that_is_not_committed_has_no_next_watermark(files: LocalFiles) -> None:
    with pytest.raises(CheckpointError, match="commits/4"):
        next_watermark_ms(files, 4)
