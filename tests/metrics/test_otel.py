"""What OpenTelemetry's own SDK collects is what Prometheus reads."""

from __future__ import annotations

import re
from collections import Counter

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from made_up import batch
from unskew.metrics import otel
from unskew.spark.prometheus import count_batch, prometheus_text


class Query:
    """A query that has run batches before the start; `figures` counts how often it was asked."""

    def __init__(self, name: str, *numbers: int) -> None:
        self.name, self.batches, self.asked = name, [batch(number) for number in numbers], 0

    @property
    def figures(self):
        self.asked += 1
        return list(self.batches)


def collected(reader: InMemoryMetricReader) -> dict[str, float]:
    """Return what an SDK collects, in the spelling of Prometheus."""
    data = reader.get_metrics_data()
    found = {}
    for scope in data.resource_metrics[0].scope_metrics if data else ():
        names = [metric.name for metric in scope.metrics]
        assert len(names) == len(set(names)), "one stream for each name"
        for metric in scope.metrics:
            counter = getattr(metric.data, "is_monotonic", False)
            name = metric.name.replace(".", "_") + ("_total" if counter else "")
            for point in metric.data.data_points:
                labels = ",".join(f'{key}="{value}"' for key, value in point.attributes.items())
                found[f"{name}{{{labels}}}"] = point.value
    return found


def written(name: str, last, *counted) -> dict[str, float]:
    totals: Counter[str] = Counter()
    for each in counted:
        count_batch(totals, each)
    lines = prometheus_text(name, last, totals).splitlines()
    return {sample: float(value) for sample, value in (re.split(r" (?=\S+$)", x) for x in lines if x[0] != "#")}


def test_two_queries(monkeypatch) -> None:
    monkeypatch.setattr(otel, "FRESH_SECONDS", 0.0)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    clicks, orders = Query("clicks", 18, 19), Query("orders")
    otel.export(clicks, provider=provider)
    exported = otel.export(orders, "shop", provider)
    assert collected(reader) == written("clicks", batch(19)) | written("shop", None)
    clicks.batches += [batch(20), batch(21)]
    orders.batches += [batch(0)]
    assert collected(reader) == written("clicks", batch(21), batch(20), batch(21)) | written("shop", batch(0), batch(0))
    exported.stop()
    exported.stop()
    clicks.batches.append(batch(22))
    assert {re.search(r'query="(\w+)"', sample)[1] for sample in collected(reader)} == {"clicks"}
    provider.shutdown()


def test_all_instruments_share_one_look(monkeypatch) -> None:
    monkeypatch.setattr(otel, "FRESH_SECONDS", 60.0)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    query = Query("clicks", 1)
    otel.export(query, provider=provider)
    query.asked = 0
    assert len(collected(reader)) > 20
    assert query.asked == 1
    provider.shutdown()


def test_without_an_sdk_nothing_happens() -> None:
    otel.export(Query("clicks", 1)).stop()
