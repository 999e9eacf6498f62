"""The core suite: what runs on every version of Spark. It shows the runtime; the long tests are left out."""

from __future__ import annotations

CORE = (
    "tests/spark/test_balance.py",
    "tests/spark/test_callback.py",
    "tests/spark/test_columns.py",
    "tests/spark/test_grouped.py",
    "tests/spark/test_internals.py",
    "tests/spark/test_local_session.py",
    "tests/spark/test_memory.py",
    "tests/spark/test_offsets.py",
    "tests/spark/test_per_key_frames.py",
    "tests/spark/test_per_key_function.py",
    "tests/spark/test_per_key_native.py",
    "tests/spark/test_per_key_output.py",
    "tests/spark/test_per_key_values.py",
    "tests/spark/test_plans.py",
    "tests/spark/test_presum.py",
    "tests/spark/test_processor.py",
    "tests/spark/test_processor_examples.py",
    "tests/spark/test_progress.py",
    "tests/spark/test_sinks.py",
    "tests/spark/test_splitting.py",
    "tests/spark/test_stages.py",
    "tests/spark/test_tick.py",
    "tests/spark/test_time_zones.py",
    "tests/spark/test_versions.py",
    "tests/spark/test_windows.py",
    "tests/spark/batch",
    "tests/operators/test_interval_join.py",
    "tests/operators/test_table_join.py",
)
