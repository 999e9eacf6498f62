"""The demonstration's race as a page, from its JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from unskew_lab.demo.batch import Batch, HotKey
from unskew_lab.demo.race import NAMES, RACERS, Race, Racer
from unskew_lab.demo.settings import Settings
from unskew_lab.demo.view import comparison, counted
from unskew_lab.report.document import Document, Section, cards, escape, paragraph, raw_table, table
from unskew_lab.report.plots import GREEN, GREY, RED, new_figure, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS: dict[Racer, str] = {"hash": RED, "unskew": GREEN}
LEAD = """\
A drifting Zipf stream went through the same stateful count twice, batch by batch in turn: once with Spark's own hash
deciding which channel counts which key, once with unskew. A batch ends when its fullest channel ends."""
SECONDS = """\
What Spark says that a batch took, from looking for new rows to the commit, with unskew's counting and planning. The
first batch is left out, because Python workers start in it. At the dotted lines other keys become the hot ones."""
IMBALANCE = """\
1 is the mean of all channels. unskew counts a batch before it routes it, so that the first batch after a shift is
balanced, too: state moves together with its rows. A key heavier than the mean sets the limit. The dashed line is what
unskew says that Spark's hash would have done with its rows, by what they cost."""


def document(result: Mapping[str, Any]) -> Document:
    """Return the page; both racers must have ended a batch."""
    settings, race = Settings(**result["settings"]), race_of(result)
    hashed, balanced = (race.figures(racer) for racer in RACERS)
    exact = result.get("exact")
    verdicts = {True: ("yes", "green"), False: ("NO", "red"), None: ("not checked", "")}
    opening = cards(
        [
            (f"{hashed.mean_imbalance:.2f}×", "red", "the mean on the fullest channel under Spark's hash"),
            (f"{balanced.mean_imbalance:.2f}×", "green", f"under unskew, which made {balanced.moves} moves"),
            (*verdicts[exact], "every count equals that of a batch recount at the end"),
        ]
    )
    opening += table([counted(hashed), *NAMES.values(), "ratio"], comparison(race), numbers=(1, 2, 3))
    return Document(
        f"{race.speedup:.2f} times the rows per second on the same stream",
        LEAD,
        sections(race, settings),
        opening,
    )


def race_of(result: Mapping[str, Any]) -> Race:
    """Return the race of a demonstration's JSON, without its counts."""
    race = Race()
    for racer in RACERS:
        for each in result["racers"][racer]["batches"]:
            hot = tuple(HotKey(**key) for key in each["hot_keys"])
            rows, seconds = tuple(each["channel_rows"]), tuple(each["channel_seconds"])
            batch = Batch(each["number"], each["seconds"], rows, seconds, hot, moves=each["moves"])
            by_hash = {name: each.get(name) for name in ("hash_imbalance", "hash_seconds")}
            race.add(racer, replace(batch, **by_hash))
    return race


def sections(race: Race, settings: Settings) -> list[Section]:
    """Return plots, hot keys, and what ran."""
    seconds = _course(race, settings, "seconds", lambda batch: batch.seconds, first=1)
    imbalance = _course(race, settings, "fullest channel, mean = 1", lambda batch: batch.imbalance)
    _add_counterfactual(imbalance, race)
    headings = ("batch", "hottest keys, their share of the rows", "channels, Spark's hash", "channels, unskew")
    return [
        Section(
            "How long batches took",
            paragraph(SECONDS) + svg(seconds, salt="seconds"),
        ),
        Section(
            "How full the fullest channel was",
            paragraph(IMBALANCE) + svg(imbalance, salt="imbalance"),
        ),
        Section("Who was hot", raw_table(headings, _hot_keys(race, settings))),
        *_moved(race),
        Section(
            "What ran",
            f"<p>Zipf({settings.exponent:g}) over {settings.keys:,} keys, all ids shifted after every "
            f"{settings.batches_per_shift} batches. One function, given to "
            '<code>events.groupBy("key").applyInPandasWithState</code> and to '
            '<code>unskew.balance(events, "key").applyInPandasWithState</code>, on '
            f"{settings.channels} channels each. Spark keeps its state in RocksDB. What the function costs is waiting: "
            f"{escape(settings.cost)}. The two take turns: while a batch of one runs, the other stands still, so that "
            "neither takes cores from the other.</p>",
        ),
    ]


def _moved(race: Race) -> list[Section]:
    found = [each for number in range(len(race.batches["unskew"])) for each in race.migrations("unskew", number)]
    headings = ("batch", "key", "from channel", "to channel", "count before", "count after")
    rows = [
        [str(m.batch), m.key, str(m.source), str(m.target), f"{m.total_before:,}", f"{m.total_after:,}"] for m in found
    ]
    return [Section("Hot keys that moved, and their counts", table(headings, rows, numbers=(4, 5)))] if found else []


def _course(race: Race, settings: Settings, label: str, value: Callable[[Batch], float], first: int = 0) -> Figure:
    """Draw a value over the batches for both racers, with a dotted line wherever other keys became the hot ones."""
    figure, [axes] = new_figure(2.9)
    last = max(map(len, race.batches.values()))
    for start in range(settings.batches_per_shift, last, settings.batches_per_shift):
        axes.axvline(start - 0.5, color=GREY, linestyle=":", linewidth=1)
    for racer in RACERS:
        batches = race.batches[racer][first:] or race.batches[racer]
        numbers = [batch.number for batch in batches]
        axes.plot(numbers, [value(batch) for batch in batches], "o-", color=COLOURS[racer], markersize=3.5)
        axes.plot([], [], color=COLOURS[racer], label=NAMES[racer])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batch")
    axes.set_ylabel(label)
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def _add_counterfactual(figure: Figure, race: Race) -> None:
    """Draw what unskew says that Spark's hash would have done with its rows."""
    told = [(batch.number, batch.hash_imbalance) for batch in race.batches["unskew"] if batch.hash_imbalance]
    if told:
        [axes] = figure.axes
        axes.plot(*zip(*told, strict=True), "--", color=GREY, linewidth=1, label="Spark's hash, as unskew counts it")
        axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def _hot_keys(race: Race, settings: Settings) -> list[list[str]]:
    """Return the hottest keys of the last batch before every shift, and who counted them."""
    rows = []
    step = settings.batches_per_shift
    for last in sorted({*range(step - 1, race.common, step), race.common - 1}):
        batches = [race.batches[racer][last] for racer in RACERS]
        names = ", ".join(f"<b>{escape(k.name)}</b> {k.rows / batches[0].rows:.0%}" for k in batches[0].hot_keys)
        rows.append([str(last), names, *(", ".join(str(key.channel) for key in b.hot_keys) for b in batches)])
    return rows
