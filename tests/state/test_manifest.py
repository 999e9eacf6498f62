"""Manifests as bytes."""

from __future__ import annotations

from unskew.state.manifest import Chunk, Manifest


def test_a_manifest_comes_back_as_it_was_written() -> None:
    chunk = Chunk(sequence=1, nonce="b2", rows=10, removed=1, live=9, earliest=5)
    manifest = Manifest("key user: string; value n: int64", "b2", ("a1",), (chunk,), 3, 2, 10, (-7, 7))
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_the_last_commits_are_remembered() -> None:
    assert Manifest("", "b2", ("a1",)).commits == ("b2", "a1")
    assert Manifest("").commits == ()
    assert Manifest("", "new", tuple(map(str, range(16)))).commits == ("new", *map(str, range(15)))
