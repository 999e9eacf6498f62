"""TPC-H's query 5, asked all the time: revenue per nation in sliding windows, from skewed streams that change.

    python examples/tpch_q5.py
    python examples/tpch_q5.py --scale 0.1 --window "5 minutes" --slide "1 minute"

Orders, line items, customers and suppliers are those of dbgen, from the package tpchgen-cli; foreign keys are redrawn
by Zipf's law with exponent 0.8, and every quarter of an hour some channel's load changes by its mean. Orders meet their
customers, line items their suppliers, then each other, in stages with a routing table each. At the end Spark SQL
computes all windows from the same rows, and must agree.
"""

import argparse
from tempfile import TemporaryDirectory

import pyarrow as pa

from unskew.jobs.tpch_q5 import TpchQ5, batch_results, read, read_stream, write
from unskew.spark import session
from unskew.workloads.tpch import Tpch


def main() -> None:
    """Run the example."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scale", type=float, default=0.01, help="1 is a gigabyte")
    options.add_argument("--slices", type=int, default=6, help="batches that the hour is cut into")
    options.add_argument("--window", default="15 minutes")
    options.add_argument("--slide", default="5 minutes")
    options.add_argument("--region", default="ASIA")
    options.add_argument("--channels", type=int, default=4)
    given = options.parse_args()
    tpch = Tpch(scale=given.scale, channels=given.channels)
    spark = session()
    with TemporaryDirectory() as folder:
        data = f"{folder}/data"
        write(tpch, data, given.slices)
        windows = (given.window, given.slide, given.region)
        balanced = {"channels": given.channels}
        query = TpchQ5(spark, read_stream(spark, data), f"{folder}/stages", *windows, "update", balanced)
        for name, stage in query.run().items():
            rows = sum(batch.rows for batch in stage.figures)
            print(f"stage {name}: {rows:,} rows, {len(stage.moves)} keys and slots changed their channel")
        found, truth = query.results(), batch_results(spark, read(spark, data), tpch, *windows)
    spark.stop()
    for (nation, start), revenue in sorted(found.items(), key=lambda each: (each[0][1], -each[1])):
        print(f"{pa.scalar(start, pa.timestamp('us')).as_py():%H:%M}  {nation:<12} {revenue:>16,.4f}")
    if found != truth:
        raise SystemExit("Spark SQL says otherwise")
    print(f"{len({start for _, start in truth})} windows, all as Spark SQL has them")


if __name__ == "__main__":
    main()
