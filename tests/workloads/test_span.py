import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.workloads.span import KEYS, VALUES, Span, uniforms


@given(rows=st.integers(0, 500), partitions=st.integers(1, 20))
def test_partitions_tile_the_interval(rows: int, partitions: int) -> None:
    spans = [Span.partition(3, rows, partition, partitions) for partition in range(partitions)]
    assert [place for span in spans for place in span.positions().tolist()] == list(range(rows))
    assert max(map(len, spans)) - min(map(len, spans)) <= 1


@given(
    start=st.integers(0, 300), length=st.integers(0, 300), seed=st.integers(0, 2**64), interval=st.integers(0, 2**40)
)
def test_a_row_owns_its_number(start: int, length: int, seed: int, interval: int) -> None:
    whole = Span(interval, 600, 0, 600).uniforms(seed, KEYS)
    part = Span(interval, 600, start, start + length).uniforms(seed, KEYS)
    assert part.tolist() == whole[start : start + length].tolist()


def test_the_numbers_are_those_of_pcg64() -> None:
    sequence = np.random.SeedSequence((5, 9), spawn_key=(VALUES,))
    expected = np.random.Generator(np.random.PCG64(sequence)).random(100)
    assert uniforms(5, 9, VALUES, 100).tolist() == expected.tolist()


def test_seeds_intervals_and_streams_differ() -> None:
    numbers = [uniforms(*place, 4).tolist() for place in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]]
    assert len({tuple(each) for each in numbers}) == 4


def test_chunks_are_bounded_and_in_order() -> None:
    span = Span(2, 100, 10, 45)
    chunks = list(span.chunks(15))
    assert [len(chunk) for chunk in chunks] == [15, 15, 5]
    assert [place for chunk in chunks for place in chunk.sequence()] == list(range(210, 245))


@pytest.mark.parametrize("arguments", [(-1, 5, 0, 1), (0, -5, 0, 1), (0, 5, 2, 2), (0, 5, -1, 2), (0, 5, 0, 0)])
def test_wrong_places_are_refused(arguments: tuple[int, int, int, int]) -> None:
    with pytest.raises(ArgumentError):
        Span.partition(*arguments)
