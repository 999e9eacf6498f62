"""What people might pick instead, on the same rows: one file per peer; those that are not installed are left out."""

from __future__ import annotations

from unskew_lab.bench.peers.benchmark import PeersBenchmark
from unskew_lab.bench.peers.peer import Peer, Totals

__all__ = ["Peer", "PeersBenchmark", "Totals"]
