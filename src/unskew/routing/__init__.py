"""Which channel owns which key: slots, explicit entries and split keys."""

from __future__ import annotations

from unskew.routing.moves import Move, Moves
from unskew.routing.ring import Ring
from unskew.routing.storage import load_table, save_table
from unskew.routing.table import RoutingTable

__all__ = ["Move", "Moves", "Ring", "RoutingTable", "load_table", "save_table"]
