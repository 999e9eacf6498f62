"""The plots of one query, in the colours of Okabe and Ito, which the colour-blind can tell apart; shapes differ too."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from bokeh.models import (
    AdaptiveTicker,
    ColumnDataSource,
    CustomJSTickFormatter,
    DatetimeTickFormatter,
    Div,
    FixedTicker,
    HoverTool,
    LinearAxis,
    NumeralTickFormatter,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from unskew.runtime.figures import BatchFigures
from unskew.watch import series
from unskew.watch.overview import Overview

BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#CC79A7",
    "#56B4E9",
    "#8A8A8A",
)
STAGE_COLOURS = dict(zip(series.STAGES, (ORANGE, VERMILION, BLUE, GREEN, PURPLE), strict=True))
KEY_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = {"circle": "●", "square": "■", "triangle": "▲", "diamond": "◆", "inverted_triangle": "▼", "plus": "✚"}
HEIGHT = 230
CURVE = np.linspace(0.0, 1.0, 24)
MOST_TICKS = 12
TIMES = {
    **dict.fromkeys(("milliseconds", "seconds", "minsec"), "%H:%M:%S"),
    **dict.fromkeys(("minutes", "hourmin"), "%H:%M"),
    "hours": "%b %d %H:%M",
    "days": "%b %d",
}
SHORT_SECONDS = "return tick >= 120 ? `${+(tick / 60).toFixed(1)} min` : `${+tick.toFixed(3)} s`"


class Plot:
    """One plot below its heading; hidden while there is nothing to show."""

    def __init__(
        self, name: str, title: str, caption: str, y_label: str, x_label: str = "batch", **options: Any
    ) -> None:
        self.name, self._title, self._caption = name, title, caption
        self.heading = Div(sizing_mode="stretch_width")
        self.tell()
        self.figure = figure(
            height=HEIGHT,
            sizing_mode="stretch_width",
            toolbar_location=None,
            tools="",
            background_fill_color=None,
            border_fill_color=None,
            outline_line_color=None,
            x_axis_label=x_label,
            y_axis_label=y_label,
            **options,
        )
        self.figure.grid.grid_line_alpha = 0.35
        self.figure.axis.minor_tick_line_color = None
        self.figure.xgrid.visible = False

    def tell(self, *legend: tuple[str, str, str]) -> None:
        """Write the heading, with a legend: mark, colour and text of each entry."""
        marks = "".join(f'<span><b style="color:{c}">{mark}</b> {escape(text)}</span>' for mark, c, text in legend)
        self.heading.text = f'<h3>{self._title}</h3><p>{self._caption}</p><p class="legend">{marks}</p>'

    def hover(self, *tooltips: tuple[str, str], **options: Any) -> None:
        self.figure.add_tools(HoverTool(tooltips=list(tooltips), **options))


class Plots:
    """All plots of one query, and what they are drawn from."""

    def __init__(self) -> None:
        self.over_time, self.flows, self.keys = ColumnDataSource(), ColumnDataSource(), ColumnDataSource()
        self.loads, self.levels = (
            ColumnDataSource(_empty("channel", "load")),
            ColumnDataSource(_empty("x", "mean", "hash")),
        )
        self.states = ColumnDataSource(_empty("channel", "bytes"))
        self.opened = [Span(dimension="height", line_color=GREY, line_dash="dotted", line_width=2) for _ in range(7)]
        self.all = [
            self._fullest(),
            self._load(),
            self._stages(),
            self._hot_keys(),
            self._flow(),
            self._state(),
            self._line("rate", "Rows per second", "Rows over the time their batches took.", "rows per second", GREEN),
            self._line("saved", "Time saved so far", SAVED, "time saved", BLUE, "saved"),
            self._line("watermark", "Watermark", "Event time up to which rows are taken to be there.", "", PURPLE),
            self._late(),
        ]
        timed = [plot for plot in self.all if plot.name not in ("load", "flow", "state")]
        for plot, span in zip(timed, self.opened, strict=True):
            plot.figure.add_layout(span)
        self.timed = [plot.figure for plot in timed]
        self.fill(Overview.of(()))

    def __getitem__(self, name: str) -> Plot:
        return next(plot for plot in self.all if plot.name == name)

    def fill(self, seen: Overview) -> None:
        """Draw all that goes over time."""
        batches, columns, keys = seen.batches, seen.over_time, seen.hot_keys
        batch_ids = [batches[0].batch_id, batches[-1].batch_id] if batches else [0, 0]
        width = max(0.8 * (batch_ids[1] - batch_ids[0] + 1) / max(len(columns["batch"]), 1), 0.8)
        self.over_time.data = {
            **{name: np.array(values, np.float64) for name, values in columns.items() if name != "span"},
            "span": columns["span"],
            "width": np.full(len(columns["batch"]), width),
        }
        shares = {f"key_{i}": np.array(values, np.float64) for i, values in enumerate(keys.values())}
        nothing = np.full(len(columns["batch"]), np.nan)
        empty = {f"key_{i}": nothing for i in range(len(shares), series.KEYS_SHOWN)}
        self.keys.data = {"batch": self.over_time.data["batch"], "span": columns["span"], **shares, **empty}
        self["keys"].tell(*zip(MARKERS.values(), KEY_COLOURS, keys, strict=False))
        self._fill_flows(seen.flows)
        shown = {
            "keys": bool(keys),
            "flow": bool(len(self.flows.data["moves"])),
            "saved": bool(np.isfinite(self.over_time.data["hash"]).any()),
            "watermark": bool(np.isfinite(self.over_time.data["watermark"]).any()),
            "late": any(batch.watermark_ms is not None for batch in batches),
        }
        for name, value in shown.items():
            self[name].figure.visible = self[name].heading.visible = value

    def open(self, batch: BatchFigures, before: series.Batches) -> None:
        """Draw one batch; `before` are the batches up to it."""
        self.loads.data, levels, self.states.data = of_batch(batch, before)
        self.levels.data = {name: np.array(values, np.float64) for name, values in levels.items()}
        unit = "seconds" if batch.measured else "rows"
        self["load"].figure.yaxis.axis_label = f"{unit} of work" if batch.measured else unit
        self["state"].figure.visible = self["state"].heading.visible = bool(len(self.states.data["bytes"]))
        for span in self.opened:
            span.location = batch.batch_id

    def _fullest(self) -> Plot:
        caption = "Load of the fullest channel over the mean of all; 1 is even."
        plot = Plot("fullest", "Fullest channel", caption, "times the mean")
        plot.tell(("●", BLUE, "unskew"), ("┅■", VERMILION, "Spark's hash, the same rows"))
        for name, colour, marker, dash in (("hash", VERMILION, "square", "dashed"), ("here", BLUE, "circle", "solid")):
            plot.figure.line("batch", name, source=self.over_time, color=colour, line_width=2, line_dash=dash)
            plot.figure.scatter("batch", name, source=self.over_time, color=colour, marker=marker, size=5)
        plot.figure.y_range.start = 0.9
        hovered = (("batch", "@span"), ("unskew", "@here{0.00}"), ("Spark's hash", "@hash{0.00}"))
        plot.hover(*hovered, mode="vline", renderers=[plot.figure.renderers[-1]])
        return plot

    def _load(self) -> Plot:
        plot = Plot("load", "Load per channel", "Of the batch that is open.", "load", "channel")
        plot.tell(("■", BLUE, "channel"), ("━", GREY, "mean"), ("┅", VERMILION, "fullest under Spark's hash"))
        bars = plot.figure.vbar("channel", 0.8, "load", source=self.loads, color=BLUE)
        plot.figure.line("x", "mean", source=self.levels, color=GREY, line_width=3)
        plot.figure.line("x", "hash", source=self.levels, color=VERMILION, line_width=3, line_dash="dashed")
        return _by_channel(plot, bars, ("load", "@load{0,0.[000]}"))

    def _state(self) -> Plot:
        plot = Plot("state", "State per channel", "What each channel holds after the open batch.", "bytes", "channel")
        bars = plot.figure.vbar("channel", 0.8, "bytes", source=self.states, color=SKY)
        plot.figure.yaxis.formatter = NumeralTickFormatter(format="0.[0] ib")
        plot.figure.yaxis.ticker = AdaptiveTicker(base=1024, mantissas=[2**power for power in range(10)])
        return _by_channel(plot, bars, ("state", "@bytes{0.[0] ib}"))

    def _stages(self) -> Plot:
        caption = "Count and plan, then work in the channels, your sink, and the commit."
        plot = Plot("stages", "Where a batch's time goes", caption, "seconds")
        plot.tell(*(("■", colour, stage) for stage, colour in STAGE_COLOURS.items()))
        stages, colours = list(STAGE_COLOURS), list(STAGE_COLOURS.values())
        stack = plot.figure.vbar_stack(stages, x="batch", width="width", color=colours, source=self.over_time)
        plot.figure.y_range.start = 0
        times = [(stage, f"@{stage}{{0.000}} s") for stage in stages]
        plot.hover(("batch", "@span"), *times, mode="vline", renderers=[stack[0]])
        return plot

    def _hot_keys(self) -> Plot:
        caption = "Share of the load of the heaviest keys. A gap: the key was not among the heaviest."
        plot = Plot("keys", "Hot keys", caption, "share of the load")
        for i, (marker, colour) in enumerate(zip(MARKERS, KEY_COLOURS, strict=True)):
            plot.figure.line("batch", f"key_{i}", source=self.keys, color=colour, line_width=1.5)
            plot.figure.scatter("batch", f"key_{i}", source=self.keys, color=colour, marker=marker, size=7)
        plot.figure.yaxis.formatter = NumeralTickFormatter(format="0.[0]%")
        plot.figure.y_range.start = 0
        return plot

    def _flow(self) -> Plot:
        caption = "Keys and slots that went from one channel to another, in all batches shown. Wide: many."
        plot = Plot("flow", "Moves between channels", caption, "from channel", "", x_range=Range1d(0, 1))
        curves = plot.figure.multi_line(
            "xs", "ys", source=self.flows, line_width="width", line_color="colour", line_alpha=0.55
        )
        plot.hover(
            ("from, to", "@source → @target"), ("moves", "@moves{0,0}"), ("such as", "@names"), renderers=[curves]
        )
        plot.figure.add_layout(LinearAxis(axis_label="to channel"), "right")
        plot.figure.xaxis.visible = False
        plot.figure.y_range.flipped = True
        return plot

    def _fill_flows(self, flows: series.Columns) -> None:
        smooth = CURVE * CURVE * (3 - 2 * CURVE)
        most = max(flows["moves"], default=1)
        ends = list(zip(flows["source"], flows["target"], strict=True))
        self.flows.data = {
            **flows,
            "xs": [CURVE] * len(ends),
            "ys": [source + (target - source) * smooth for source, target in ends],
            "width": [2 + 10 * moves / most for moves in flows["moves"]],
            "colour": [KEY_COLOURS[source % len(KEY_COLOURS)] for source, _ in ends],
        }
        used = sorted({channel for pair in ends for channel in pair})
        ticker = FixedTicker(ticks=used[:: -(-len(used) // MOST_TICKS) or 1])
        self["flow"].figure.yaxis.ticker = ticker

    def _late(self) -> Plot:
        plot = Plot("late", "Late rows", "Rows that came after their time and did not count.", "late rows")
        bars = plot.figure.vbar("batch", "width", "late", source=self.over_time, color=VERMILION)
        plot.figure.y_range.start = 0
        plot.figure.yaxis.formatter = NumeralTickFormatter(format="0,0")
        plot.hover(("batch", "@span"), ("late rows", "@late{0,0}"), mode="vline", renderers=[bars])
        return plot

    def _line(self, name: str, title: str, caption: str, y_label: str, colour: str, column: str = "") -> Plot:
        column = column or {"rate": "rows_per_second"}.get(name, name)
        options = {"y_axis_type": "datetime"} if name == "watermark" else {}
        plot = Plot(name, title, caption, y_label, **options)
        plot.figure.line("batch", column, source=self.over_time, color=colour, line_width=2)
        dots = plot.figure.scatter("batch", column, source=self.over_time, color=colour, size=5)
        form = {"watermark": "{%F %T}", "saved": "{0,0.0} s"}.get(name, "{0,0}")
        formatters = {f"@{column}": "datetime"} if name == "watermark" else {}
        tooltips = (("batch", "@span"), (title.lower(), f"@{column}{form}"))
        plot.hover(*tooltips, mode="vline", renderers=[dots], formatters=formatters)
        if name == "rate":
            plot.figure.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
            plot.figure.y_range.start = 0
        elif name == "saved":
            plot.figure.yaxis.formatter = CustomJSTickFormatter(code=SHORT_SECONDS)
        else:
            plot.figure.yaxis.formatter = DatetimeTickFormatter(**TIMES)
        return plot


SAVED = "Estimated for every batch from its own counts: how much longer its work would have taken under Spark's hash."


def of_batch(batch: BatchFigures, before: series.Batches) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return loads, levels and state of one batch, as the sources hold them."""
    load, (mean, under_hash) = series.loads(batch), series.levels(batch)
    ends = [-0.5, max(len(load["load"]), 1) - 0.5]
    return load, {"x": ends, "mean": [mean] * 2, "hash": [under_hash] * 2}, series.states(before)


def _empty(*columns: str) -> dict[str, list[float]]:
    return {name: [] for name in columns}


def _by_channel(plot: Plot, bars: Any, tooltip: tuple[str, str]) -> Plot:
    plot.hover(("channel", "@channel"), tooltip, renderers=[bars])
    plot.figure.y_range.start = 0
    plot.figure.xaxis.ticker.min_interval = 1
    return plot
