from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.errors import ArgumentError
from unskew_lab.bench import Benchmark, Row, store
from unskew_lab.experiments.claims import Claim, save_claims
from unskew_lab.report import write_benchmarks, write_report
from unskew_lab.report.headline import MARKS, headline, is_whole, update
from unskew_lab.report.markdown import markdown
from unskew_lab.report.picture import draw_before_after
from unskew_lab.report.runs import kind

VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Collects tags, cells and what a page would load; insists that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loaded, self.open, self.cells = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")
        for name, value in attributes:
            if name in {"src", "href", "xlink:href", "data", "srcset"} and not value.startswith(("#", "data:")):
                self.loaded.append(value)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and {"td", "th"} & set(self.open):
            self.cells[-1] += data


def page_of(path):
    text = path.read_text()
    page = Page(text)
    assert page.loaded == []
    assert "script" not in page.tags
    assert "@import" not in text
    assert "url(http" not in text
    assert 'name="viewport"' in text
    return page, text


def skewed(quick=False):
    """Return a record as `unskew bench skew` keeps it."""
    fullest = "fullest channel over max(mean, heaviest key)"
    rows = [Row("rows that wait: native over unskew", "unskew", 1.92, "x", target=1.8, interval=(1.85, 2.014))]
    for who, seconds in (("native", 4.8), ("unskew", 2.5)):
        rows.append(Row("rows that wait: batch, median", who, seconds, "s", better="lower", samples=[seconds] * 5))
    for exponent, ours, theirs in ((1.0, 1.02, 1.87), (1.4, 1.04, 3.79)):
        rows.append(Row(f"Zipf {exponent}: {fullest}", "unskew", ours, "", target=1.03, better="lower"))
        rows.append(Row(f"Zipf {exponent}: {fullest}", "Spark's hash", theirs, ""))
    return record("skew", rows, quick)


def record(name, rows, quick=False, notes=()):
    class Pretended(Benchmark):
        summary = "a <benchmark> that was run already"

        def run(self, quick):
            for note in notes:
                self.note(note)
            return rows

    Pretended.name = name
    return store.measure(Pretended(), quick)


def state():
    rows = [
        Row("drop-in, 100,000 rows: native over unskew", "unskew", 4.25, "x", target=3.5, samples=(4.0, 4.2, 4.3, 4.6)),
        *medians("drop-in, 100,000 rows", 8.5, 2.0),
        Row("lean: native over unskew", "unskew", 9.5, "x", target=10),
        Row("quiet", "unskew", 1.0, "s", better="lower"),
    ]
    return record("state", rows, notes=["native is <faster>"])


def aggregates():
    rows = []
    for name, native, ours in (
        ("sliding windows, 9 rows", 2.0, 1.0),
        ("sessions, 9 rows", 3.0, 1.5),
        ("count and sum, 500,000 rows, 2 partitions", 0.6, 0.5),
    ):
        rows += [Row(f"{name}: native over unskew", "unskew", native / ours, "x"), *medians(name, native, ours)]
    return record("aggregates", rows)


def medians(name, native, ours):
    return [
        Row(f"{name}: batch, median", who, s, "s", better="lower") for who, s in (("native", native), ("unskew", ours))
    ]


def demo():
    batch = {
        "rows": 800,
        "imbalance": 1.5,
        "moves": 3,
        "channel_rows": [600, 200],
        "channel_seconds": [0.6, 0.2],
        "hot_keys": [{"name": "user-<7>", "rows": 400, "channel": 1}],
    }
    racers = {
        racer: {"figures": {}, "batches": [{**batch, "number": n, "seconds": seconds} for n in range(4)]}
        for racer, seconds in (("hash", 3.0), ("unskew", 2.0))
    }
    return {
        "settings": {"batches": 4, "channels": 2},
        "racers": racers,
        "speedup": 1.5,
        "same_result": True,
        "exact": True,
    }


def claims():
    return [
        Claim("fig1", "1", "a < b", "a < 2", "a = 1", "confirmed"),
        Claim("fig2", "2", "c", "c > 2", "c = 1", "refuted", "because of & so on"),
    ]


def test_benchmarks_have_every_row_and_a_plot_each(tmp_path):
    records = [skewed(), state()]
    for each in records:
        store.save(each, tmp_path / "run" / f"{each['benchmark']}.json")
    page, text = page_of(write_report(tmp_path / "run", tmp_path / "page.html"))
    assert page.tags.count("svg") == 2
    assert page.tags.count("tr") == 2 + sum(len(each["rows"]) for each in records)
    for each in records:
        for row in each["rows"]:
            assert row["name"] in page.cells
            assert any(cell.startswith(f"{row['value']:,.4g} {row['unit']}".strip()) for cell in page.cells)
    assert "native is &lt;faster&gt;" in text
    assert "a &lt;benchmark&gt;" in text.lower()
    assert records[0]["commit"] in text
    assert page.cells.count("no") == 2  # the channels of Zipf 1.4, and the lean function


def test_a_paper_has_every_claim_and_figure(tmp_path):
    from matplotlib.figure import Figure

    folder = tmp_path / "paper-example"
    folder.mkdir()
    save_claims(claims(), folder / "claims.json")
    Figure(figsize=(1, 1)).savefig(folder / "figure-3.png")
    page, text = page_of(write_report(folder, tmp_path / "page.html"))
    assert page.tags.count("img") == 1
    assert page.tags.count("tr") == 3
    for claim in claims():
        assert {claim.claim, claim.expected, claim.measured} <= set(page.cells)
    assert "because of &amp; so on" in text
    assert page_of(write_report(folder / "claims.json", tmp_path / "again.html"))[1] == text
    (folder / "claims.json").rename(folder / "printed.json")  # by --json, next to pictures of whatever
    assert "img" not in page_of(write_report(folder / "printed.json", tmp_path / "again.html"))[0].tags


def test_a_race_has_plots_and_hot_keys(tmp_path):
    (tmp_path / "demo.json").write_text(json.dumps(demo()))
    page, text = page_of(write_report(tmp_path / "demo.json", tmp_path / "page.html"))
    assert page.tags.count("svg") == 2
    assert "1.50 times the rows per second" in text
    assert "user-&lt;7&gt;" in text
    assert "batch recount" in text


def test_all_kinds_in_one_folder_make_one_page(tmp_path):
    run = tmp_path / "run"
    store.save(skewed(), run / "bench" / "skew.json")
    (run / "paper-example").mkdir()
    save_claims(claims(), run / "paper-example" / "claims.json")
    (run / "demo.json").write_text(json.dumps(demo()))
    page, text = page_of(write_report(run, tmp_path / "page.html"))
    assert page.tags.count("svg") == 3
    for expected in ("1.50 times", "How fast unskew is", "Claims of example"):
        assert expected in text


def test_many_rows_make_a_plot_of_bounded_size():
    from unskew_lab.report.bars import panels

    rows = record("state", [Row(f"{n}", "unskew", 1.0, "s") for n in range(100)])["rows"]
    rows += record("state", [Row(f"{n}", who, 1.0, "s") for n in range(100, 120) for who in "ab"])["rows"]
    rows += record("state", [Row("judged", who, 1.0, "s", target=2.0) for who in "ab"])["rows"]
    drawn = panels(rows)
    assert len(drawn) == 10
    assert drawn[0].title == "judged"
    assert max(len(panel.bars) for panel in panels(rows[:100])) == 24


def test_names_inside_plots_differ(tmp_path):
    for each in (skewed(), state()):
        store.save(each, tmp_path / "run" / f"{each['benchmark']}.json")
    text = write_report(tmp_path / "run", tmp_path / "page.html").read_text()
    plots = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    clips = [set(re.findall(r'<clipPath id="([^"]+)"', plot)) for plot in plots]
    assert clips[0] & clips[1] == set()


@pytest.mark.parametrize("content", ["[]", '{"a": 1}', "no json"])
def test_what_is_no_result_is_refused(tmp_path, content):
    path = tmp_path / "some.json"
    path.write_text(content)
    with pytest.raises(ArgumentError, match="unskew bench, unskew paper or unskew demo"):
        write_report(path, tmp_path / "page.html")
    with pytest.raises(ArgumentError, match="no such file"):
        write_report(tmp_path / "missing", tmp_path / "page.html")


def test_a_race_without_a_batch_is_no_result():
    result = demo()
    result["racers"]["hash"]["figures"] = None
    assert kind(result) is None


def test_markdown_has_machine_commands_targets_and_every_row():
    records = [skewed(quick=True), state()]
    text = markdown(records)
    for each in records:
        assert f"## {each['benchmark']}\n" in text
        assert each["commit"] in text
    assert "unskew bench skew --quick\n" in text
    assert "unskew bench state\n" in text
    assert f"{records[0]['machine']['cores']} cores" in text
    assert f"pyspark {records[0]['machine']['packages']['pyspark']}" in text
    assert "| 2 of 3 |" in text
    assert "| drop-in, 100,000 rows: native over unskew | unskew | 4.25 x | 0.225 |  | 3.5 | yes |" in text
    assert "| lean: native over unskew | unskew | 9.5 x |  |  | 10 | no |" in text
    assert "| rows that wait: native over unskew | unskew | 1.92 x (1.85 to 2.01) |  |  | 1.8 | yes |" in text
    assert "native is <faster>" in text


def test_whole_runs_come_before_quick_ones_and_failures():
    quick, whole = skewed(quick=True), skewed()
    failed = store.failure("skew", quick=False, reason="It did not end.")
    assert store.newest([whole, quick, failed]) == [whole]
    assert store.newest([failed, quick]) == [quick]
    assert "It did not end." in markdown([failed])


def test_a_table_from_the_records():
    lines = headline([skewed(), state(), aggregates()])
    assert is_whole(lines)
    assert [line.split("|")[2:5] for line in lines[2:]] == [
        [" 4.80 s ", " 2.50 s ", " **1.92x** "],
        [" 8.50 s ", " 2.00 s ", " **4.25x** "],
        [" 0.60 s ", " 0.50 s ", " **1.20x** "],
        [" 1.87 ", " 1.02 ", " "],
    ]
    assert headline([]) == []
    assert len(headline([skewed()])) == 4
    assert not is_whole(headline([skewed(), state()]))


def test_the_page_of_the_documentation_and_the_readme_hold_the_same_numbers(tmp_path):
    records = [skewed(), state(), aggregates()]
    readme = tmp_path / "README.md"
    readme.write_text(f"# name\n\n{MARKS[0]}\n{MARKS[1]}\n\nThe rest.\n")
    page = write_benchmarks(records, tmp_path / "docs" / "benchmarks.md")
    write_benchmarks(records, readme)
    assert (tmp_path / "docs" / "benchmarks-skew.svg").exists()
    text = readme.read_text()
    assert text.startswith("# name\n")
    assert text.endswith("The rest.\n")
    numbers = re.findall(r"\*\*(.+?)\*\*", text)
    assert len(numbers) == 3
    assert all(f"**{number}**" in page.read_text() for number in numbers)
    assert "](docs/benchmarks-skew.svg)" in text
    update(readme, records)
    assert readme.read_text() == text
    update(readme, [state()])  # a number is missing: what was measured last stays
    assert readme.read_text() == text


def test_a_page_with_one_mark_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(MARKS[0])
    with pytest.raises(ArgumentError, match="both marks"):
        update(page, [skewed(), state()])


def test_the_picture_shows_batches_and_channels_of_both(tmp_path):
    path = tmp_path / "picture.svg"
    assert draw_before_after([skewed()], path)
    text = path.read_text()
    for label in ("seconds per batch", "Spark alone", "unskew", "Zipf 1.0", "Zipf 1.4", "1.02", "1.87", "1.04", "3.79"):
        assert text.count(f">{label}<") == 1, label
    assert not draw_before_after([state()], path)


def test_many_contenders_get_a_line_each():
    rows = [Row("all: batch", who, 2.0, "s", target=1.0, better="lower") for who in "abcd"]
    assert "| a | 2 (**missed**: 1) |" in markdown([record("race", rows)])


def test_the_command(tmp_path):
    store.save(state(), tmp_path / "state.json")
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "state.json"), "--out", str(out), "--json"])
    assert json.loads(result.stdout) == {"page": str(out.resolve())}
    assert out.exists()
    shown = CliRunner().invoke(app, ["report", str(tmp_path / "state.json"), "--out", str(tmp_path / "page.md")]).stdout
    assert "page.md" in shown
    assert Path(tmp_path / "page.md").read_text().startswith("# Benchmarks")
