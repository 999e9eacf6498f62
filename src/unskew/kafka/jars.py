"""Published jars by name: the broker's, and Spark's connector. Fetched once with the Ivy that comes with Spark."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from unskew.errors import MissingPackageError
from unskew.java import HOW_TO_INSTALL, find_java
from unskew.packages import installed_version

SCALA = "2.13"
KAFKA_VERSION = "4.3.1"
SETTINGS_VARIABLE = "UNSKEW_IVY_SETTINGS"
FETCH_SECONDS = 300.0

# Spark has these already, or the connector needs them only where Hadoop is missing.
_SPARK_HAS = (
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "org.apache.hadoop",
    "org.apache.logging.log4j",
    "org.lz4",
    "at.yawk.lz4",
    "org.xerial.snappy",
    "com.github.luben",
    "com.google.code.findbugs",
    f"org.apache.spark:spark-tags_{SCALA}",
)


class Module(NamedTuple):
    """A published module, as Maven names it."""

    organisation: str
    name: str
    version: str


class Bundle(NamedTuple):
    """Modules that are fetched together, with their dependencies."""

    name: str
    modules: tuple[Module, ...]
    forced: tuple[Module, ...] = ()  # these versions win over those that the modules ask for
    without: tuple[str, ...] = ()  # left out: organisations, or organisation:name

    def ivy(self) -> str:
        lines = [
            f'<dependency org="{m.organisation}" name="{m.name}" rev="{m.version}" conf="default->master,runtime(*)"/>'
            for m in self.modules
        ]
        for organisation, _, name in (each.partition(":") for each in self.without):
            lines.append(f'<exclude org="{organisation}" module="{name or "*"}"/>')
        lines += [f'<override org="{m.organisation}" module="{m.name}" rev="{m.version}"/>' for m in self.forced]
        return (
            '<ivy-module version="2.0"><info organisation="unskew" module="jars"/>'
            f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
        )


def broker_jars() -> list[Path]:
    """Return the jars of a Kafka broker, fetched at the first call (45 jars, 43 MB) and kept."""
    modules = (
        Module("org.apache.kafka", f"kafka_{SCALA}", KAFKA_VERSION),
        Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    )
    return fetch([Bundle(f"kafka-{KAFKA_VERSION}", modules)])


def connector_jars(spark_version: str | None = None) -> list[Path]:
    """Return the jars of Spark's Kafka connector that Spark itself lacks, fetched at the first call and kept.

    Prefers the connector of the running version of Spark. If that is not published yet, the version before works too:
    the interfaces between them have not changed.
    """
    version = spark_version or installed_version("pyspark") or ""
    return fetch([_connector(version, version), _connector("4.2.0", "4.2.0"), _connector("4.2.0", "4.0.0")])


def _connector(version: str, provider_version: str) -> Bundle:
    provider = Module("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", provider_version)
    return Bundle(
        f"spark-kafka-{version}" + (f"-{provider_version}" if provider_version != version else ""),
        (Module("org.apache.spark", f"spark-sql-kafka-0-10_{SCALA}", version),),
        forced=(provider,),
        without=_SPARK_HAS,
    )


def fetch(choices: list[Bundle], cache: Path | None = None) -> list[Path]:
    """Return the jars of the first bundle that is in the cache or can be fetched.

    Ivy looks in its usual places. ``UNSKEW_IVY_SETTINGS`` may name another settings file (for a mirror or a proxy), as
    ``spark.jars.ivySettings`` does for Spark.
    """
    root = cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unskew" / "jars"
    for bundle in choices:
        jars = sorted((root / bundle.name).glob("*.jar"))
        if jars:
            return jars
    said = ""
    for bundle in choices:
        jars, said = _fetch(bundle, root)
        if jars:
            return jars
    raise MissingPackageError(
        f"the jars of {choices[0].name} are not here and could not be fetched: {_reason(said)}",
        hint=f"go online once, or let {SETTINGS_VARIABLE} name an Ivy settings file with your mirror",
    )


def _fetch(bundle: Bundle, root: Path) -> tuple[list[Path], str]:
    """Return the jars, or none and what Ivy said."""
    java = find_java()
    if java is None:
        raise MissingPackageError("no Java was found", hint=HOW_TO_INSTALL)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="fetching-") as folder:
        description, jars = Path(folder, "ivy.xml"), Path(folder, "jars")
        description.write_text(bundle.ivy())
        command: list[str | Path] = [java.home / "bin" / "java", "-jar", _ivy(), "-warn"]
        command += ["-cache", root / "ivy", "-ivy", description]
        command += ["-types", "jar", "bundle", "-retrieve", f"{jars}/[artifact]-[revision].[ext]"]
        settings = os.environ.get(SETTINGS_VARIABLE)
        command += ["-settings", settings] if settings else []
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return [], f"nothing came within {FETCH_SECONDS:.0f} s"
        if done.returncode or not jars.exists():
            return [], done.stdout + done.stderr
        target = root / bundle.name
        if not target.exists():
            shutil.move(jars, target)
        return sorted(target.glob("*.jar")), ""


def _ivy() -> Path:
    found = importlib.util.find_spec("pyspark")
    places = list((Path(found.origin).parent / "jars").glob("ivy-*.jar")) if found and found.origin else []
    if not places:
        raise MissingPackageError("this PySpark comes without Ivy", hint="install pyspark from its package index")
    return places[0]


def _reason(said: str) -> str:
    telling = ("not found", "UnknownHost", "nothing came")
    lines = (line.strip(" \t:") for line in said.splitlines() if any(words in line for words in telling))
    return next(lines, "no answer")
