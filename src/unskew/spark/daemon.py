"""Spark's Python daemon with unskew loaded: every worker that it forks starts warm.

Importing modules and loading compiled kernels takes a new worker two to three seconds, and Spark starts new workers
after every idle minute. Here the daemon pays once, before it forks. A worker also collects garbage after every task,
through all that is loaded, and the next task waits a tenth of a second for it. What is loaded here is exempt.

`unskew.spark.session` sets it. Other sessions can, with ``spark.python.daemon.module=unskew.spark.daemon``. Only time
depends on it.
"""

from __future__ import annotations

import gc
import tempfile

import pyarrow as pa
from pyspark import daemon

from unskew.operators import Clock
from unskew.operators.aggregate import Aggregate
from unskew.routing import RoutingTable
from unskew.runtime.channel import ChannelTask
from unskew.runtime.extract import Extract
from unskew.runtime.orders import orders_for
from unskew.runtime.prepare import Prepare
from unskew.runtime.route import Route
from unskew.runtime.site import Site
from unskew.spark import jobs, per_key  # noqa: F401
from unskew.state.files import Files


def warm_up() -> None:
    """Send a few rows through a batch, so that all code for it is loaded, and exempt it from garbage collection."""
    rows = pa.table({"key": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    operator, table = Aggregate(n="count", total="sum(value)").bind(rows.schema, ("key",)), RoutingTable.initial(2, 16)
    with tempfile.TemporaryDirectory(prefix="unskew-warm-") as folder:
        site, tasks = Site(Files(folder), "warm", operator, 16, cache_bytes=0), table.slots[:2] * 0
        orders = orders_for(table, table, table.moves_to(table), {}, set(), table.split_keys, ())
        route = Route(operator, table, tasks, Extract(site, tasks), {0: tuple(orders)})
        channels = ChannelTask(site, Clock(0, 0), table.listed_keys, 10, 1 << 20)
        for _ in channels(route(Prepare(operator, 16, 10)(0, iter(rows.to_batches())))):
            pass
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    warm_up()
    daemon.manager()
