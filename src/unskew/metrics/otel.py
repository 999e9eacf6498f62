"""Figures of queries for OpenTelemetry, through its API package. Its SDK and its exporters are the user's choice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol
from weakref import WeakKeyDictionary

from unskew import __version__
from unskew.errors import MissingPackageError
from unskew.runtime.figures import BatchFigures
from unskew.spark.prometheus import COUNTERS, GAUGES, count_batch

try:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider
except ModuleNotFoundError as error:
    needed = "exporting to OpenTelemetry needs the package opentelemetry-api"
    raise MissingPackageError(needed, hint="pip install 'unskew[otel]'") from error

FRESH_SECONDS = 0.5  # instruments that are asked together share one look at the checkpoint

Samples = list[tuple[dict[str, str], float]]
Read = Callable[[BatchFigures | None, Counter[str]], Samples]


class Query(Protocol):
    """What is needed of a `BalancedQuery`."""

    @property
    def figures(self) -> list[BatchFigures]: ...


class Exported:
    """A query whose figures go to OpenTelemetry until `stop`."""

    def __init__(self, query: Query, name: str, others: list[Exported]) -> None:
        self.name, self._query, self._others = name, query, others
        self._lock, self._looked = threading.Lock(), -FRESH_SECONDS
        self._last: BatchFigures | None = None
        self._totals: Counter[str] = Counter()
        before = query.figures
        self._counted = before[-1].batch_id if before else -1

    def stop(self) -> None:
        """Report this query no more."""
        if self in self._others:
            self._others.remove(self)

    def look(self) -> tuple[BatchFigures | None, Counter[str]]:
        """Return the last batch, and totals since the query was exported."""
        with self._lock:
            if time.monotonic() - self._looked >= FRESH_SECONDS:
                for figures in self._query.figures:
                    self._last = figures
                    if figures.batch_id > self._counted:
                        count_batch(self._totals, figures)
                        self._counted = figures.batch_id
                self._looked = time.monotonic()
            return self._last, self._totals


_exported: WeakKeyDictionary[MeterProvider, list[Exported]] = WeakKeyDictionary()


def export(query: Query, name: str | None = None, provider: MeterProvider | None = None) -> Exported:
    """Report a query's figures as observable instruments, until ``stop()`` of what is returned.

    Every measurement has the attribute ``query``. The SDK decides when to read them; reading takes one look at the
    checkpoint. Counters begin at zero with this call.

    Parameters
    ----------
    query
        A query that `unskew.balance` has started.
    name
        The value of the attribute ``query``; defaults to the query's name, or else its id.
    provider
        Defaults to the global one of OpenTelemetry.
    """
    provider = provider or get_meter_provider()
    if provider not in _exported:
        _exported[provider] = []
        _create(provider, _exported[provider])
    others = _exported[provider]
    known = Exported(query, name or str(getattr(query, "name", None) or getattr(query, "id", "")), others)
    others.append(known)
    return known


def _create(provider: MeterProvider, queries: list[Exported]) -> None:
    """Create the instruments, once for all queries of a provider: names must not come twice."""
    meter = provider.get_meter("unskew", __version__)

    def asking(read: Read) -> Callable[[CallbackOptions], list[Observation]]:
        return lambda _: [
            Observation(value, {"query": query.name, **labels})
            for query in tuple(queries)
            for labels, value in read(*query.look())
        ]

    for name, help_text in COUNTERS.items():
        meter.create_observable_counter(f"unskew.{name}", [asking(_total(name))], description=help_text)
    gauges = {name: (_gauge(name), help_text) for name, help_text in GAUGES.items()}
    for name in ("rows", "seconds"):
        gauges[f"channel_{name}"] = _by_channel(name), f"The last batch's {name}, by channel."
    gauges["hot_key_share"] = _hot_keys, "Share of the last batch's load that a hot key had."
    for name, (read, help_text) in gauges.items():
        meter.create_observable_gauge(f"unskew.{name}", [asking(read)], description=help_text)


def _total(name: str) -> Read:
    return lambda _, totals: [({}, totals[name])]


def _gauge(name: str) -> Read:
    return lambda last, _: [({}, getattr(last, name))] if last else []


def _by_channel(name: str) -> Read:
    def read(last: BatchFigures | None, _: Counter[str]) -> Samples:
        values = getattr(last, f"channel_{name}", ())
        return [({"channel": str(channel)}, value) for channel, value in enumerate(values)]

    return read


def _hot_keys(last: BatchFigures | None, _: Counter[str]) -> Samples:
    hot_keys = last.hot_keys if last else ()
    return [({"key": hot.key, "channel": str(hot.channel)}, hot.share) for hot in hot_keys]
