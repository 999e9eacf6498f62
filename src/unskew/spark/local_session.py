"""A local Spark session with the settings that unskew needs."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from unskew.errors import SECRET, SessionError
from unskew.java import HOW_TO_INSTALL, find_java
from unskew.machine import cores, memory_bytes
from unskew.versions import CHECKPOINT_FILES

DEFAULTS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}

# Spark's default starts six processes (readlink, chmod) for every file of a checkpoint on a local disk.
LOCAL_CHECKPOINTS = {"spark.sql.streaming.checkpointFileManagerClass": CHECKPOINT_FILES}

# For `config` in runs of a minute or two: compiling less thoroughly halves the work of a start.
SHORT_RUN = {
    "spark.ui.enabled": "false",
    **{f"spark.{side}.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" for side in ("driver", "executor")},
}

LOOPBACK = "127.0.0.1"
NOISE = (  # printed whatever the options
    b"WARNING: Using incubator modules",  # by every JVM that Spark starts
    b"Starting Streaming TransformWithStateInPandas Python worker",  # by the start of every query with state
    b"Streaming TransformWithStateInPandas Python worker",
)


def session(master: str | None = None, config: Mapping[str, str] | None = None) -> SparkSession:
    """Return a local session with the right defaults.

    Driver and workers use this Python interpreter. The time zone is UTC, all sockets stay on this machine, only errors
    are printed, and writing a checkpoint on a local disk starts no process for each file. Another Spark that the
    environment names (``SPARK_HOME``, ``SPARK_CONF_DIR``, ``SPARK_REMOTE``) is ignored: to use it, build a session of
    your own and pass it to `check_session`.

    If a session is running, it is returned with the settings of `config`. The first one takes a few seconds, mostly to
    start Java.

    Parameters
    ----------
    master
        Spark's master. Defaults to all cores of this machine and up to four attempts for a task (``local[2]`` gives a
        task one attempt).
    config
        More settings, which override the defaults.

    Raises
    ------
    SessionError
        There is no Java 17 or newer, Java does not start, or the running session has another master or a setting that
        cannot be changed any more.

    Examples
    --------
    ::

        spark = unskew.spark.session(config={"spark.sql.shuffle.partitions": "8"})
        spark.range(5).count()
    """
    wanted = dict(config or {})
    if SparkContext._active_spark_context is not None:
        return _adjusted(SparkSession.builder.getOrCreate(), master, wanted)
    conf = _configuration(master or f"local[{cores()},4]", wanted)
    with _environment(conf):
        if SparkContext._gateway is None:
            SparkContext._ensure_initialized(gateway=_launch(conf), conf=conf)
        builder = SparkSession.builder
        for name, value in conf.getAll():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def _configuration(master: str, wanted: Mapping[str, str]) -> SparkConf:
    logging = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    settings = {
        **DEFAULTS,
        "spark.master": master,
        "spark.app.name": "unskew",
        "spark.driver.memory": _driver_memory(),
        "spark.local.dir": tempfile.gettempdir(),
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.python.daemon.module": "unskew.spark.daemon",  # workers begin warm
        "spark.executorEnv.PYTHONWARNINGS": "ignore::FutureWarning:pyspark.worker",  # PySpark's own use of pandas
    }
    if master.startswith("local"):
        settings |= {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK, **LOCAL_CHECKPOINTS}
    settings |= wanted
    for side in ("driver", "executor"):
        name = f"spark.{side}.extraJavaOptions"
        settings[name] = f"{logging} {settings.get(name, '')}".strip()
    conf = SparkConf(loadDefaults=False)
    return conf.setAll(list(settings.items()))


def _driver_memory() -> str:
    half_in_megabytes = (memory_bytes() or 8 << 30) >> 21  # half of a small machine, four gigabytes of a large one
    return f"{max(1024, min(4096, half_in_megabytes))}m"


@contextmanager
def _environment(conf: SparkConf) -> Iterator[None]:
    """Set the variables that Spark's scripts read while it starts, and put them back."""
    java = find_java()
    if java is None:
        raise SessionError("no Java that Spark can run on was found", hint=HOW_TO_INSTALL)
    during: dict[str, str | None] = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": None,
        "SPARK_REMOTE": None,
        "SPARK_CONNECT_MODE": None,
        "SPARK_CONNECT_MODE_ENABLED": None,
    }
    if str(conf.get("spark.master")).startswith("local"):
        during["SPARK_LOCAL_IP"] = LOOPBACK  # a host name that cannot be resolved does no harm then
    before = {name: os.environ.get(name) for name in during}
    os.environ.update({"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable})
    try:
        _put(during)
        yield
    finally:
        _put(before)


def _put(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _launch(conf: SparkConf) -> object:
    """Start Java, and filter the noise out of its standard error."""
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading,), name="unskew-java-stderr", daemon=True).start()
    try:
        return launch_gateway(conf, popen_kwargs={"stderr": writing})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        raise SessionError("Java did not start", hint="see what it printed above, and try unskew doctor") from error
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    dropped = False
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            dropped = line.startswith(NOISE) or (dropped and not line.strip())
            if not dropped:
                os.write(2, line)


def _adjusted(spark: SparkSession, master: str | None, wanted: Mapping[str, str]) -> SparkSession:
    running = spark.sparkContext.master
    if master is not None and master != running:
        raise SessionError(
            f"a session with master {running} is running already", where="master", got=master, hint="stop it first"
        )
    for name, value in wanted.items():
        if spark.conf.get(name, None) == value:
            continue
        try:
            spark.conf.set(name, value)
        except PySparkException as error:
            raise SessionError(
                f"{name} cannot be changed in a running session",
                got=None if SECRET.search(name) else value,
                hint="stop the session first",
            ) from error
    return spark
