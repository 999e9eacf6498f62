"""Measures a channel's state without Spark: what commits take, and what EXTRACT reads where there is no local copy.

    .venv/bin/python examples/measure_state.py --keys 1000000

The figures of parts of chunks in docs/concepts/runtime.md. Seconds are those of a core, not of the clock.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from statistics import median

import numpy as np
import pyarrow as pa

from unskew.hashing import hash_keys
from unskew.operators import Aggregate
from unskew.routing.moves import Moves
from unskew.runtime.extract import Extract
from unskew.runtime.orders import Order
from unskew.runtime.site import Site
from unskew.state.files import PieceWriter
from unskew.testing.place import MemoryFiles, MemoryPlace

SLOTS = 4096
OPERATOR = Aggregate(n="count", total="sum(amount)").bind(
    pa.schema({"user": pa.string(), "amount": pa.float64()}), ("user",)
)


class CountingPlace(MemoryPlace):
    """A disk in memory that counts what is read of it."""

    read_bytes = 0

    def read_range(self, name, offset, length):
        """Return a part of a file."""
        self.read_bytes += length
        return super().read_range(name, offset, length)


def written(machine, keys):
    """Write a state: all keys in ten batches, then thirty of 20,000 keys and thirty of 1,000."""
    rng, files, manifest, seconds = np.random.default_rng(0), machine.files, None, defaultdict(list)
    batches = [*np.array_split(np.arange(keys), 10)]
    batches += [rng.choice(keys, rows, replace=False) for rows in [20_000] * 30 + [1_000] * 30]
    for number, ids in enumerate(batches):
        users = pa.table({"user": [f"user-{i}" for i in ids]})
        columns = {"n": rng.integers(0, 1000, len(ids)), "total": rng.random(len(ids))}
        with PieceWriter(files, f"state/{number}", "a") as writer:
            state, store = machine.open(Order(0, manifest), writer)
            state.put(state.group(users, hash_keys(users, "user")), pa.table(columns, OPERATOR.value_schema))
            began = time.process_time()
            state.flush(f"n{number}")
            seconds[len(ids)].append(time.process_time() - began)
            state.publish()
        manifest = store.manifest
    for rows, times in seconds.items():
        print(f"commit of {rows:,} rows: {1000 * median(times):.1f} ms")
    return manifest


def main():
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    files = MemoryFiles("memory", CountingPlace())
    with tempfile.TemporaryDirectory() as folder:
        manifest = written(Site(files, "query", OPERATOR, SLOTS, 4 << 30, folder), parser.parse_args().keys)
    without_copies = Site(files, "query", OPERATOR, SLOTS, cache_bytes=0)
    few, none = np.empty(0, np.int32), np.empty(0, np.int64)
    for slots in ([17], range(0, SLOTS, 100)):
        chosen = np.array(slots, np.int32)
        order = Order(0, manifest, Moves(chosen, 0 * chosen, 0 * chosen + 1, none, few, few))
        files.place.read_bytes, began = 0, time.process_time()
        list(Extract(without_copies, np.zeros(2, np.int32))(order))
        took = time.process_time() - began
        print(f"{len(chosen)} of {SLOTS:,} slots: {took:.3f} s, {files.place.read_bytes:,} bytes read")
    files.place.read_bytes, began = 0, time.process_time()
    state, _ = without_copies.open(Order(0, manifest))
    print(f"all {state.rows:,} keys: {time.process_time() - began:.3f} s, {files.place.read_bytes:,} bytes read")


if __name__ == "__main__":
    main()
