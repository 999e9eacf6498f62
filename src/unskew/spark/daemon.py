"""Spark's Python daemon with unskew loaded: every worker that it forks begins warm.

A worker imports what its function needs and loads compiled kernels when it is first called, two to three seconds that
every new worker pays, also those that follow on an idle minute. Here the daemon pays once, before it forks.
A worker also collects garbage after every task, through all that is loaded: a tenth of a second that the next task has
to wait for. What is loaded here is set apart from that.

`unskew.spark.session` sets it; a session of another origin may, with
``spark.python.daemon.module=unskew.spark.daemon``. Nothing but time depends on it.
"""

from __future__ import annotations

import gc

import pyarrow as pa
from pyspark import daemon

from unskew.operators import Clock, KeyedState, MemoryStore
from unskew.operators.aggregate import Aggregate
from unskew.routing import RoutingTable
from unskew.spark import channel, per_key  # noqa: F401
from unskew.spark.router import HASH_COLUMN, prepare


def warm_up() -> None:
    """Send a few rows the way of all rows, so that what lies on that way is loaded; spare it garbage collection."""
    rows = pa.table({"key": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    operator = Aggregate(n="count", total="sum(value)").bind(rows.schema, ("key",))
    routed, _ = prepare(rows, operator, RoutingTable.initial(2))
    hashes = routed.column(HASH_COLUMN).to_numpy()
    with KeyedState.open(MemoryStore(), operator.key_schema, operator.value_schema, slots=16) as state:
        combined = routed.select(operator.combined_schema.names)
        operator.update(state, state.group(combined, hashes), combined, Clock(0, 0))
        state.commit("warm")
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    warm_up()
    daemon.manager()
