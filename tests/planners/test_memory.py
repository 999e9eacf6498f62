import pyarrow as pa
import pytest

from unskew.errors import FormatError
from unskew.planners import Memory


def test_values_and_tables_are_read_back() -> None:
    memory = Memory(
        {"batches": 3, "ratio": 0.5, "mode": "load"}, {"window": pa.table({"hash": [1, 2], "state": [0.5, 1]})}
    )
    assert Memory.from_bytes(memory.to_bytes()) == memory
    assert Memory.from_bytes(Memory().to_bytes()) == Memory()


@pytest.mark.parametrize("data", [b"", b"nonsense", Memory({"a": 1}).to_bytes()[:-20][:40]])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="not a planner's memory"):
        Memory.from_bytes(data)
