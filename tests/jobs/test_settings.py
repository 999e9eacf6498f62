"""Jobs as options and files say them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.errors import ArgumentError, FormatError
from unskew.jobs import Job, job_from, read_job_file
from unskew.jobs.operators import known_operators, make_operator, parse_aggregates
from unskew.jobs.places import SINKS, SOURCES, Place
from unskew.operators import Aggregate, Operator

NEEDED = {"source": "parquet:in", "sink": "parquet:out", "key": "user", "aggregate": "count"}


def test_a_file_says_the_same_as_the_options(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        """
        source = "csv:in"
        key = ["user", "day"]
        aggregate = ["count", "sum(amount) as total"]
        sink = "json:out"
        channels = 4
        tolerance = 1
        follow = true
        every = "5 seconds"
        package = ["a:b:1"]

        [source-options]
        maxFilesPerTrigger = 1

        [column]
        day = "date(time)"
        """
    )
    assert job_from(read_job_file(path)) == Job(
        source="csv:in",
        key="user, day",
        aggregate="count, sum(amount) as total",
        sink="json:out",
        channels=4,
        tolerance=1.0,
        follow=True,
        every="5 seconds",
        packages=("a:b:1",),
        source_options={"maxFilesPerTrigger": 1},
        columns={"day": "date(time)"},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "sorce = 'rate'",
            r"there is no setting of that name, got 'sorce' \(in .*job.toml\). Hint: did you mean source",
        ),
        ("source = ", r"this is not TOML: .*job.toml"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "job.toml"
    path.write_text(text)
    with pytest.raises((ArgumentError, FormatError), match=message):
        read_job_file(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ArgumentError, match="the job file cannot be read, got 'No such file"):
        read_job_file(Path("nowhere.toml"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "parket:x"}, "there is no such source, got 'parket' .*did you mean parquet:DIR"),
        ({"source": "parquet"}, "a source of this kind needs an address, got 'parquet'"),
        ({"sink": "rate"}, "there is no such sink, got 'rate'"),
        ({"sink": "console:x"}, "console takes no address"),
        ({"key": "user,"}, "a column of the key is missing, got 'user,'"),
        ({"aggregate": "product(x)"}, "unskew has no such aggregate, got 'product"),
        ({"aggregate": "count, count"}, "two results are called 'count'"),
        ({"aggregate": "count,,sum(x)"}, "an aggregate is missing"),
        ({"operator": "aggregate"}, "one of the two, got"),
        ({"aggregate": None}, "one of the two"),
        ({"parameters": {"a": 1}}, "only an operator has parameters"),
        ({"source": "rate"}, "has no end, got 'rate' .*--follow or --batches"),
        ({"every": "5 seconds"}, "works only with --follow"),
        ({"batches": 0}, "at least one batch, got 0"),
        ({"channels": "auto"}, "need a time between batches"),
    ],
)
def test_jobs_that_cannot_be(changed: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Job(**{**NEEDED, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tolerance": "much"}, "tolerance must be a number, got 'much'"),
        ({"batches": True}, "batches must be a whole number, got True"),
        ({"source_options": 3}, "source-options must be a table of names and values, got 3"),
    ],
)
def test_values_of_another_type(changed: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        job_from({**NEEDED, **changed})


@pytest.mark.parametrize("missing", ["source", "sink", "key"])
def test_what_every_job_needs(missing: str) -> None:
    with pytest.raises(ArgumentError, match=f"a job needs a {missing}"):
        job_from({name: value for name, value in NEEDED.items() if name != missing})


def test_names_of_results() -> None:
    assert parse_aggregates("count(*), avg( price ) AS mean_price,max(a_b)") == {
        "count": "count(*)",
        "mean_price": "avg( price )",
        "max_a_b": "max(a_b)",
    }


def test_addresses() -> None:
    assert Place.parse("json:s3a://b/c", "sink", SINKS) == Place("json", "s3a://b/c")
    with pytest.raises(ArgumentError, match="a topic of Kafka is SERVERS/TOPIC"):
        Place.parse("kafka:host:9092", "source", SOURCES).servers_and_topic("source")


def test_a_workload_with_an_end_needs_no_other() -> None:
    assert not Job(**{**NEEDED, "source": "workload:zipf", "source_options": {"batches": "3"}}).endless


class Windowed(Aggregate):
    """An operator outside of the package."""

    def __init__(self, size: int, name: str = "n", scales: tuple[float, ...] = ()) -> None:
        super().__init__(**{name: "count"})
        self.size, self.scales = size, scales


def test_operators_by_name_and_by_place() -> None:
    known = known_operators()
    assert known["aggregate"] is Aggregate
    assert all(issubclass(each, Operator) for each in known.values())
    assert "operator" not in known
    assert "mergeable" not in known
    made = make_operator(f"{__name__}:Windowed", {"size": "3", "name": "7", "scales": "[0.5, 2]"})
    assert (type(made).__name__, made.size, made.columns, made.scales) == ("Windowed", 3, {"7": "count"}, [0.5, 2])


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (f"{__name__}:Windowed", {"sise": "3"}, "has no parameter 'sise' .*one of size, name, scales"),
        (f"{__name__}:Windowed", {}, "missing a required argument: 'size'"),
        (f"{__name__}:Place", {}, "this is not an operator"),
        ("no.such.module:Thing", {}, "cannot be imported"),
        ("aggregat", {}, "did you mean 'aggregate'"),
    ],
)
def test_operators_that_are_not_there(name: str, parameters: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_operator(name, parameters)
