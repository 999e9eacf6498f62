"""Published jars by name: the broker's, and Spark's connector. Fetched once with the Ivy that comes with Spark."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from unskew.errors import MissingPackageError
from unskew.java import HOW_TO_INSTALL, find_java
from unskew.packages import installed_version

SCALA = "2.13"
KAFKA_VERSION = "4.3.1"
SETTINGS_VARIABLE = "UNSKEW_IVY_SETTINGS"
FETCH_SECONDS = 300.0

# What Spark has already, or what its connector needs only where Hadoop is missing.
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


@dataclass(frozen=True)
class Module:
    """A published module, as Maven names it: ``organisation:name:version``.

    Examples
    --------
    >>> Module.parse("org.apache.kafka:kafka-clients:4.3.1").name
    'kafka-clients'
    """

    organisation: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Module:
        """Read ``organisation:name:version``."""
        return cls(*text.split(":"))


@dataclass(frozen=True)
class Bundle:
    """Modules that are fetched together, with what they depend on.

    `forced` versions win over those that the modules ask for; `without` are
    organisations, or ``organisation:name``, that are left out.
    """

    name: str
    modules: tuple[Module, ...]
    forced: tuple[Module, ...] = ()
    without: tuple[str, ...] = ()

    def ivy(self) -> str:
        """Return the bundle as Ivy wants it."""
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


def broker_jars(version: str = KAFKA_VERSION) -> list[Path]:
    """Return the jars of a Kafka broker, fetched at the first call (45 jars, 43 MB) and kept."""
    modules = (
        Module("org.apache.kafka", f"kafka_{SCALA}", version),
        Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    )
    return fetch([Bundle(f"kafka-{version}", modules)])


def connector_jars(spark_version: str | None = None) -> list[Path]:
    """Return the jars of Spark's Kafka connector that Spark itself lacks, fetched at the first call and kept.

    The connector of the very version of Spark is preferred. Where it is not published (yet), that of the version
    before serves: the interfaces between them have not changed.
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
    """Return the jars of the first bundle that is there or can be fetched.

    Ivy looks where it looks by default; ``UNSKEW_IVY_SETTINGS`` names a settings file that says otherwise (a mirror,
    a proxy), as ``spark.jars.ivySettings`` does for Spark.

    Raises
    ------
    MissingPackageError
        None of them could be fetched: no network, or a mirror that lacks them.
    """
    root = cache or cache_folder()
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


def cache_folder() -> Path:
    """Return where jars are kept: ``unskew/jars`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unskew" / "jars"


def _fetch(bundle: Bundle, root: Path) -> tuple[list[Path], str]:
    java = find_java()
    if java is None:
        raise MissingPackageError("no Java was found", hint=HOW_TO_INSTALL)
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="fetching-") as folder:
        description, jars = Path(folder, "ivy.xml"), Path(folder, "jars")
        description.write_text(bundle.ivy())
        command: list[str | Path] = [
            java.home / "bin" / "java",
            "-jar",
            _ivy(),
            "-warn",
            "-cache",
            root / "ivy",
            "-ivy",
            description,
        ]
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
        raise MissingPackageError("PySpark does not bring Ivy with it", hint="install pyspark from its package index")
    return places[0]


def _reason(said: str) -> str:
    lines = [line.strip(" \t:") for line in said.splitlines()]
    telling = [line for line in lines if "not found" in line or "UnknownHost" in line or "nothing came" in line]
    return telling[0] if telling else "no answer"
