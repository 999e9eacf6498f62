"""The program that PyFlink runs; it knows nothing of unskew, whose packages its interpreter lacks."""

# mypy: ignore-errors
from __future__ import annotations

import json
import sys
from pathlib import Path


def main(folder: str, out: str) -> None:
    """Keep a running count and sum of each key in Flink's state, and write the last ones as JSON."""
    import pyarrow.parquet as pq
    from pyflink.common import Types
    from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from pyflink.datastream.state import ValueStateDescriptor

    class Sums(KeyedProcessFunction):
        def open(self, runtime_context):
            pair = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
            self.state = runtime_context.get_state(ValueStateDescriptor("sums", pair))

        def process_element(self, row, context):
            n, total = self.state.value() or (0, 0.0)
            new = (n + 1, total + row[1])
            self.state.update(new)
            yield row[0], new[0], new[1]

    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_python_executable(sys.executable)
    environment.set_parallelism(2)
    rows = []
    for path in sorted(Path(folder).glob("*.parquet")):
        table = pq.read_table(path)
        rows += zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)
    stream = environment.from_collection(rows, Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
    given = Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()])
    totals = {}
    with stream.key_by(lambda row: row[0]).process(Sums(), given).execute_and_collect() as results:
        for key, n, total in results:
            totals[key] = (n, total)
    Path(out).write_text(json.dumps(totals))


if __name__ == "__main__":
    main(*sys.argv[1:])
