"""One trial: a topic simulated under one way of routing, or hot keys counted."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from unskew.planners.smalops import Smalops
from unskew.workloads.power_law import power_law
from unskew_lab.experiments.runner import Measures
from unskew_lab.experiments.smalops.grid import BRINK, LONGEST, Trial
from unskew_lab.simulation.queueing import Gateway, QueueingRun, Topic, simulate_queues
from unskew_lab.simulation.queueing.topic import Arrivals

PERCENTILES = (*range(5, 100, 5), 99, 99.9)
WINDOW_SECONDS = 10.0
STATE_SECONDS = 0.1  # to move a key's state, where the rule is asked
HOT_MESSAGES = 28_000_000
HOT_WINDOW = 2_000_000
HOT_LEAST = 100


def run_trial(trial: Trial) -> Measures:
    """Run a trial; delays are quantiles in microseconds at `PERCENTILES`."""
    if trial.figure == "hot-keys":
        return count_hot_keys(trial)
    topic = topic_of(trial)
    gateway = Gateway(
        planner=Smalops(
            hot_by="listed",
            rule=trial.rule,
            message_seconds=topic.message_seconds,
            move_seconds=STATE_SECONDS,
            seed=trial.seed,
        ),
        hot_by=trial.hot_by,
        hot_threshold=trial.hot_threshold,
        interval_seconds=WINDOW_SECONDS,
        count=trial.gateways,
    )
    run = simulate_queues(topic, trial.contender, gateway=gateway, arrivals=messages_of(topic))
    totals = run.totals(WINDOW_SECONDS)
    names = ("imbalance", "held_share", "longest_hold_us", "most_held", "moves", "hot_keys", "entries", "unsplittable")
    return {**delays(run), **{name: [float(totals[name])] for name in names}}


def delays(run: QueueingRun) -> Measures:
    """Return the delays of all messages, without the first window (``warm``), and of the ``last`` window."""
    levels = np.array(PERCENTILES) / 100
    last = run.topic.seconds - WINDOW_SECONDS
    return {
        f"{which} {part}": (1e6 * run.quantiles(which, after, levels)).tolist()
        for which in ("broker", "end_to_end")
        for part, after in (("all", 0.0), ("warm", WINDOW_SECONDS), ("last", last))
    }


def topic_of(trial: Trial) -> Topic:
    """Return the topic of a trial. What arrives does not depend on how long a message takes."""
    at_longest = trial.utilisation or BRINK / fullest_share(trial.partitions, trial.key_count, trial.seed)
    return Topic(
        partitions=trial.partitions,
        message_seconds=1e-6 * trial.service_us,
        utilisation=at_longest * trial.service_us / LONGEST,
        seconds=trial.run_seconds,
        key_count=trial.key_count,
        shift=trial.shift,
        shift_seconds=trial.shift_seconds,
        burst=trial.burst,
        seed=trial.seed,
    )


@lru_cache(maxsize=1)
def messages_of(topic: Topic) -> Arrivals:
    """Draw the messages of a topic; kept for the next trial of the process."""
    return topic.arrivals()


@lru_cache(maxsize=16)
def fullest_share(partitions: int, key_count: int, seed: int) -> float:
    """Return the load of the partition to which Kafka's partitioner sends most, over the mean."""
    topic = Topic(partitions=partitions, key_count=key_count, seed=seed)
    law = power_law(topic.exponent, key_count, topic.offset).probabilities()
    home = np.mod(topic.hashes(np.arange(key_count)), partitions)
    return float(np.bincount(home, law, partitions).max() * partitions)


def count_hot_keys(trial: Trial) -> Measures:
    """Count keys with 100 messages or more, in the whole run and in windows, for one gateway or several.

    Several gateways share the keys by hash, and each has as many messages in its window as the one would have: their
    windows last as much longer.
    """
    rng = np.random.default_rng([trial.seed, 9])
    law = power_law(1.1, trial.key_count, 2.72)
    in_run = np.zeros(trial.key_count, np.int32)
    hot_at_all = np.zeros(trial.key_count, bool)
    tracked: list[float] = []
    window = np.zeros(trial.key_count, np.int32)
    windows = HOT_MESSAGES // HOT_WINDOW
    gateway_of = np.mod(np.arange(trial.key_count) * 2654435761 >> 7, trial.gateways).astype(np.int8)
    for number in range(windows):
        ranks = law.quantile(rng.random(HOT_WINDOW)) + trial.shift * number
        np.add.at(window, ranks % trial.key_count, 1)
        if (number + 1) % trial.gateways == 0 or number == windows - 1:
            hot = np.flatnonzero(window >= HOT_LEAST)
            tracked += np.bincount(gateway_of[hot], minlength=trial.gateways).astype(float).tolist()
            hot_at_all[hot] = True
            in_run += window
            window[:] = 0
    frequent = in_run >= HOT_LEAST
    return {
        "keys": [float(np.count_nonzero(in_run))],
        "messages": [float(in_run.sum())],
        "frequent": [float(np.count_nonzero(frequent))],
        "frequent_messages": [float(in_run[frequent].sum())],
        "hot": [float(np.count_nonzero(hot_at_all))],
        "hot_messages": [float(in_run[hot_at_all].sum())],
        "tracked": tracked,
    }
