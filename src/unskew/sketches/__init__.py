"""Bounded summaries of how often each key occurs: 64-bit hashes in whole columns, Arrow in and out."""

from __future__ import annotations

from unskew.sketches.base import Sketch
from unskew.sketches.lossy_counting import LossyCounting
from unskew.sketches.sliding import SlidingLossyCounting
from unskew.sketches.space_saving import SpaceSaving, combined_estimates

__all__ = ["LossyCounting", "Sketch", "SlidingLossyCounting", "SpaceSaving", "combined_estimates"]
