"""How Spark interpolates between two values, to the last digit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.versions import SPARK

Doubles = NDArray[np.float64]


def interpolated(least: Doubles, most: Doubles, share: Doubles) -> Doubles:
    """Return the value that lies a share of the way between two; before 4.3 Spark adds both up by their shares."""
    if SPARK < (4, 3):
        return (1 - share) * least + share * most
    return least + share * (most - least)
