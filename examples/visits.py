"""An operator of one's own: visits to a shop, told apart by a state machine.

    python examples/visits.py

A visit begins with a user's first row. Views and carts keep it going; ``buy`` and ``leave`` end it, and so does a
pause. Each visit is put out once, when it is over, with how it ended: bought, left, or gave up, perhaps with a cart.
docs/guides/write-an-operator.md goes through this file.
"""

from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

import unskew
from unskew.operators import Clock, Operator
from unskew.state import Groups, KeyedState
from unskew.operators.base import require_column
from unskew.operators.durations import microseconds
from unskew.spark import register_workloads, session

# The machine: what a user's stage becomes after each action. A visit is over when the stage is OUTSIDE again.
OUTSIDE, LOOKING, WITH_CART = 0, 1, 2
ACTIONS = ["view", "cart", "buy", "leave"]
NEXT_STAGE = np.array(
    [
        # view, cart, buy, leave
        [LOOKING, WITH_CART, OUTSIDE, OUTSIDE],  # from OUTSIDE
        [LOOKING, WITH_CART, OUTSIDE, OUTSIDE],  # from LOOKING
        [WITH_CART, WITH_CART, OUTSIDE, OUTSIDE],  # from WITH_CART
    ],
    np.int8,
)
OUTCOMES = ["bought", "left", "gave up", "gave up a cart"]
BUY, BOUGHT, LEFT, GAVE_UP, GAVE_UP_CART = 2, 0, 1, 2, 3


class Visits(Operator):
    """Visits of users, from rows of an action (``view``, ``cart``, ``buy``, ``leave``) and a time with a watermark.

    Parameters
    ----------
    pause
        After so long without a row a visit is over.
    action
        The column of actions; others than the four are passed over.
    """

    output_mode = "append"  # a row, once put out, is final
    time_mode = "event"  # `expire` is called in batches without rows too, when the watermark advances
    deadline = "deadline_ms"  # the state column that `state.due` goes by
    memory = "constant"  # the state of a key does not grow with its rows
    compute = "linear"  # the work on a key does

    def __init__(self, pause: str = "30 minutes", action: str = "action") -> None:
        self.pause, self.action = pause, action
        self._pause = microseconds(pause)

    def __repr__(self) -> str:
        """A checkpoint remembers the operator by this text: what changes the meaning of state belongs into it."""
        return f"Visits(pause={self.pause!r}, action={self.action!r})"

    def check(self) -> None:
        """Say at once, before anything runs, what does not fit."""
        super().check()
        require_column(self.input_schema, self.action)
        require_column(self.input_schema, self.event_time or "a watermark")

    @property
    def value_schema(self) -> pa.Schema:
        """What is known of a user between two batches: one row of columns."""
        fields = {"stage": pa.int8(), "start": pa.int64(), "last": pa.int64(), "views": pa.int64()}
        return pa.schema({**fields, "deadline_ms": pa.int64()})

    @property
    def output_schema(self) -> pa.Schema:
        """A row for each visit."""
        instant = pa.timestamp("us", self.input_schema.field(self.event_time).type.tz)
        fields = {"start": instant, "end": instant, "views": pa.int64(), "outcome": pa.string()}
        return pa.schema([*self.key_schema, *pa.schema(fields)])

    def update(self, state: KeyedState, groups: Groups, rows: pa.Table, clock: Clock) -> pa.Table:
        """Take in a batch's rows: once for all keys of the channel, however many there are."""
        actions = pc.index_in(rows.column(self.action), pa.array(ACTIONS)).fill_null(-1).to_numpy()
        times = rows.column(self.event_time).cast(pa.int64()).fill_null(0).to_numpy()
        late = times <= (clock.previous_watermark_ms or 0) * 1000
        self.late_rows = int(late.sum())
        actions = np.where(late, -1, actions).astype(np.int64)

        held, _ = state.get(groups)  # null where nothing is known of a key
        known = [held.column(name).fill_null(0).to_numpy().copy() for name in ("stage", "start", "last", "views")]
        over = _run_machine(NEXT_STAGE, groups.order, groups.starts, actions, times, *known, self._pause)

        stage, _, last, _ = known  # changed in place
        inside = stage != OUTSIDE
        deadline = pa.array((last + self._pause) // 1000, mask=~inside)
        state.put(groups, pa.table([*known, deadline], schema=self.value_schema), where=inside)
        state.remove(groups, where=~inside)
        return self._visits(groups.keys, *over)

    def expire(self, state: KeyedState, clock: Clock) -> pa.Table:
        """End the visits of users who have not been seen for too long."""
        due = state.due(clock.watermark_ms or 0)
        held, _ = state.get(due)
        state.remove(due)
        stage, start, last, views = (held.column(name).to_numpy() for name in ("stage", "start", "last", "views"))
        outcome = np.where(stage == WITH_CART, GAVE_UP_CART, GAVE_UP)
        return self._visits(due.keys, np.arange(len(due)), start, last, views, outcome)

    def _visits(self, keys: pa.Table, group: Any, start: Any, end: Any, views: Any, outcome: Any) -> pa.Table:
        instants = [pa.array(each).cast(self.output_schema.field("start").type) for each in (start, end)]
        outcomes = pa.array(OUTCOMES).take(pa.array(outcome))
        keys = keys.take(pa.array(group))
        return pa.Table.from_arrays([*keys.columns, *instants, pa.array(views), outcomes], schema=self.output_schema)


@njit
def _run_machine(
    next_stage: Any,
    order: Any,
    starts: Any,
    actions: Any,
    times: Any,
    stage: Any,
    start: Any,
    last: Any,
    views: Any,
    pause: int,
) -> Any:
    """Send the rows of each group through the machine, in their order; returns the visits that end.

    Compiled: a loop over rows in plain Python would be a hundred times slower.
    """
    most = 2 * len(order)  # a row may end a visit by its time and another one by its action
    visit_of, begun, ended = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    seen, how = np.empty(most, np.int64), np.empty(most, np.int64)
    count = 0
    for group in range(len(stage)):
        for place in range(starts[group], starts[group + 1]):
            row = order[place]
            action, time = actions[row], times[row]
            if action < 0:
                continue
            if stage[group] != OUTSIDE and time - last[group] > pause:
                visit_of[count], begun[count], ended[count] = group, start[group], last[group]
                seen[count], how[count] = views[group], GAVE_UP_CART if stage[group] == WITH_CART else GAVE_UP
                count, stage[group] = count + 1, OUTSIDE
            if stage[group] == OUTSIDE:
                start[group], last[group], views[group] = time, time, 0
            last[group] = max(last[group], time)
            views[group] += action == 0
            stage[group] = next_stage[stage[group], action]
            if stage[group] == OUTSIDE:
                visit_of[count], begun[count], ended[count] = group, start[group], last[group]
                seen[count], how[count] = views[group], BOUGHT if action == BUY else LEFT
                count += 1
    return visit_of[:count], begun[:count], ended[:count], seen[:count], how[:count]


def main() -> None:
    """Run the operator on a stream of visits."""
    spark = session()
    register_workloads(spark)
    stream = spark.readStream.format("unskew").options(
        workload="zipf", exponent=0.8, keys=2000, batches=6, rowsPerBatch=5000
    )
    # the workload gives keys; actions and times follow from a counter
    events = stream.load().selectExpr(
        "key as user",
        "element_at(array('view', 'view', 'view', 'cart', 'buy', 'leave'), int(1 + rand(1) * 6)) as action",
        "timestamp_seconds(1700000000 + int(rand(2) * 600)) as ts",
    )

    def show(rows: Any, batch_id: int) -> None:
        for row in rows.groupBy("outcome").count().orderBy("outcome").collect():
            print(f"batch {batch_id}: {row['count']:,} visits ended: {row.outcome}")

    with TemporaryDirectory() as checkpoint:
        query = (
            unskew.balance(events.withWatermark("ts", "10 minutes"), key="user", channels=4)
            .apply(Visits("5 minutes"))
            .writeStream.option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .foreachBatch(show)
            .start()
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
