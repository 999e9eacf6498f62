"""Would it pay to let a channel put off excess rows to the next batch? A model of what micro-batches absorb.

    python examples/carry_over.py

A batch takes as long as its fullest channel. With carry-over a channel works on at most ``1 + allowance`` times the
mean and puts the rest off, as long as no more than a bound is waiting; rows that wait are written to the state store
once and read once. Prints, for several kinds of skew, throughput over that of perfect balance: without carry-over, with
it, and without it when the trigger's interval is four times as long.
"""

import numpy as np
from numpy.typing import NDArray

CHANNELS, BATCHES, ROWS = 10, 400, 20_000
ALLOWANCE, BOUND = 0.05, 1.0  # overload that is worked off at once; most rows waiting, in batches of a channel
STORE_SHARE = 0.05  # what writing and reading a row that waits costs, as a share of working on it

Loads = NDArray[np.float64]


def noise(rng: np.random.Generator) -> Loads:
    """Draw rows from Zipf keys whose owners are balanced: only chance makes batches uneven."""
    share = np.arange(1, 10_001) ** -1.0
    owner, full = np.zeros(len(share), int), np.zeros(CHANNELS)
    for key, weight in enumerate(share):
        owner[key] = full.argmin()
        full[owner[key]] += weight
    return rng.multinomial(ROWS, full / full.sum(), BATCHES).astype(float)


def bursts(rng: np.random.Generator) -> Loads:
    """Give one channel, another one in every batch, twice its rows."""
    loads = noise(rng)
    loads[np.arange(BATCHES), rng.integers(0, CHANNELS, BATCHES)] *= 2
    return loads


def long_bursts(rng: np.random.Generator) -> Loads:
    """Give one channel twice its rows for ten batches, then another one: a hot key that stays for a while."""
    loads = noise(rng)
    loads[np.arange(BATCHES), np.repeat(rng.integers(0, CHANNELS, BATCHES // 10), 10)] *= 2
    return loads


def standing(rng: np.random.Generator) -> Loads:
    """Give one channel half as many rows again, always: what a planner is for."""
    loads = noise(rng)
    loads[:, 0] *= 1.5
    return loads


def without(loads: Loads) -> float:
    """Return the throughput over that of perfect balance."""
    return float(loads.mean(axis=1).sum() / loads.max(axis=1).sum())


def with_carry_over(loads: Loads) -> tuple[float, float]:
    """Return the throughput over that of perfect balance, and the share of rows that waited."""
    waiting, seconds, waited = np.zeros(CHANNELS), 0.0, 0.0
    for batch in loads:
        mean = batch.mean()
        there = waiting + batch
        done = np.maximum(np.minimum(there, (1 + ALLOWANCE) * mean), there - BOUND * mean)
        put_off = there - done
        seconds += (done + STORE_SHARE * (put_off + waiting)).max()
        waited += put_off.sum()
        waiting = put_off
    seconds += waiting.max()
    return float(loads.mean(axis=1).sum() / seconds), float(waited / loads.sum())


def main() -> None:
    """Print the table."""
    print(f"{'skew':12} {'without':>8} {'with':>8} {'rows that wait':>15} {'4 x interval':>13}")
    for draw in (noise, bursts, long_bursts, standing):
        loads = draw(np.random.default_rng(0))
        carried, waited = with_carry_over(loads)
        longer = without(loads.reshape(BATCHES // 4, 4, CHANNELS).sum(axis=1))
        print(f"{draw.__name__:12} {without(loads):8.3f} {carried:8.3f} {waited:15.1%} {longer:13.3f}")


if __name__ == "__main__":
    main()
