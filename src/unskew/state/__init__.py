"""Keyed columnar state: what a channel knows about its keys, where it is kept, and rows grouped by key."""

from unskew.state.cache import CachePlace, LocalCache
from unskew.state.groups import Groups, group_rows
from unskew.state.keyed_state import KeyedState
from unskew.state.store import ChunkStore, MemoryStore

__all__ = ["CachePlace", "ChunkStore", "Groups", "KeyedState", "LocalCache", "MemoryStore", "group_rows"]
