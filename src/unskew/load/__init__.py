"""Load: what channels report, and what balance and migration are worth."""

from __future__ import annotations

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics, combine

__all__ = ["ChannelUse", "Statistics", "combine"]
