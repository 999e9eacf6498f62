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
    """Send a few rows the way of all rows, so that what lies on that way is loaded; spare it garbage collection."""
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
