"""Ways to partition a stream: Spark's, what people do by hand, and unskew's planners and splitters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unskew.planners import planner

IDEAL, HASH = "round robin", "Spark's hash"
TOLERANCES = (0.02, 0.08, 0.1, 0.15, 0.3)
SIGMAS = (0.1, 0.01, 0.001)
TOLERANCE = 0.08
BEST = ", sigma "


@dataclass(frozen=True)
class Contender:
    """A way to partition."""

    name: str  # what it is called in results
    options: Mapping[str, Any] = field(default_factory=dict)  # of `unskew.balance`
    salted: bool = False  # whether keys are salted by hand, and the salts added up afterwards
    even: bool = False  # whether every channel has exactly its share of the work, the bound for all others
    tolerance: float = TOLERANCE  # overload that it lets pass

    @property
    def scheme(self) -> bool:
        return self.options.get("split") not in (None, "auto")

    @property
    def one_owner(self) -> bool:
        return not self.salted and "split" not in self.options and self.options["planner"] != "keep"


def mixed(tolerance: float) -> Contender:
    """Return Fang's planner."""
    return Contender(f"Mixed {tolerance}", {"planner": "mixed", "tolerance": tolerance}, tolerance=tolerance)


def readj(tolerance: float = TOLERANCE, sigmas: Iterable[float] = SIGMAS) -> list[Contender]:
    """Return Gedik's planner with several thresholds; `best_of` keeps the one that does best."""
    name = "readj" if tolerance == TOLERANCE else f"readj {tolerance}"
    return [
        Contender(
            f"{name}{BEST}{sigma}",
            {"planner": planner("readj", tolerance=tolerance, threshold_scale=sigma)},
            tolerance=tolerance,
        )
        for sigma in sigmas
    ]


def best_of(seconds: Mapping[str, float]) -> dict[str, str]:
    """Return the fastest of each contender's variants, by the name that they share.

    >>> best_of({"readj, sigma 0.1": 9.0, "readj, sigma 0.01": 7.0, "Mixed 0.08": 5.0})
    {'readj': 'readj, sigma 0.01', 'Mixed 0.08': 'Mixed 0.08'}
    """
    best: dict[str, str] = {}
    for name, taken in seconds.items():
        shared = name.partition(BEST)[0]
        if shared not in best or taken < seconds[best[shared]]:
            best[shared] = name
    return best


ROUND_ROBIN = Contender(IDEAL, {"planner": "keep"}, even=True)
SPARKS_HASH = Contender(HASH, {"planner": "keep"})
SALTING = Contender("salting by hand", {"planner": "keep"}, salted=True)
SHUFFLE = Contender("shuffle and merge", {"split": "shuffle"})
PKG = Contender("partial key grouping", {"split": "pkg"})
D_CHOICES = Contender("D-Choices", {"split": "d-choices"})
SPLIT = Contender("Mixed 0.02 and split keys", {"planner": "mixed", "tolerance": 0.02, "split": "auto"}, tolerance=0.02)
MIN_TABLE = Contender("MinTable", {"planner": "mintable", "tolerance": TOLERANCE})
OTHERS = tuple(Contender(name, {"planner": name}) for name in ("scan", "redist", "flux-load", "smalops"))

EVERYBODY: Sequence[Contender] = (
    ROUND_ROBIN,
    SPARKS_HASH,
    *(mixed(tolerance) for tolerance in TOLERANCES),
    SPLIT,
    SALTING,
    SHUFFLE,
    PKG,
    D_CHOICES,
    MIN_TABLE,
    *readj(),
    *OTHERS,
)
