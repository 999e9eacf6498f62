from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET

import pytest

from unskew.errors import MissingPackageError
from unskew.java import Java
from unskew.kafka import jars
from unskew.kafka.jars import Bundle, Module, fetch

BUNDLE = Bundle(
    "thing-1",
    (Module("org.example", "thing", "1"),),
    forced=(Module("org.example", "part", "2"),),
    without=("org.other", "org.third:only-this"),
)


def test_a_bundle_says_what_ivy_needs():
    root = ET.fromstring(BUNDLE.ivy())
    found = {element.tag: element.attrib for element in root.find("dependencies")}
    assert found["dependency"] == {
        "org": "org.example", "name": "thing", "rev": "1", "conf": "default->master,runtime(*)"
    }  # fmt: skip
    assert found["override"] == {"org": "org.example", "module": "part", "rev": "2"}
    excluded = [(e.get("org"), e.get("module")) for e in root.iter("exclude")]
    assert excluded == [("org.other", "*"), ("org.third", "only-this")]


def test_jars_that_are_here_are_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was run"))
    (tmp_path / "thing-1").mkdir()
    jar = tmp_path / "thing-1" / "thing-1.jar"
    jar.touch()
    missing = Bundle("other-1", BUNDLE.modules)
    assert fetch([missing, BUNDLE], tmp_path) == [jar]


def test_without_network_the_error_says_so(tmp_path, monkeypatch):
    said = ":: org.example#thing;1: not found\n"
    monkeypatch.setattr(jars.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, said, ""))
    monkeypatch.setattr(jars, "find_java", lambda: Java(tmp_path, "17"))
    with pytest.raises(MissingPackageError, match=r"org.example#thing;1: not found.*UNSKEW_IVY_SETTINGS"):
        fetch([BUNDLE], tmp_path)
    assert not list(tmp_path.glob("fetching-*")) and not list(tmp_path.glob("thing-1"))


def test_a_settings_file_is_passed_on_and_the_jars_are_kept(tmp_path, monkeypatch):
    seen = []

    def run(command, **_):
        seen.extend(map(str, command))
        pattern = str(command[command.index("-retrieve") + 1])
        jar = pattern.replace("[artifact]-[revision].[ext]", "thing-1.jar")
        target = tmp_path / jar
        target.parent.mkdir()
        target.touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(jars.subprocess, "run", run)
    monkeypatch.setattr(jars, "find_java", lambda: Java(tmp_path, "17"))
    monkeypatch.setenv("UNSKEW_IVY_SETTINGS", "/etc/ivysettings.xml")
    assert fetch([BUNDLE], tmp_path) == [tmp_path / "thing-1" / "thing-1.jar"]
    assert seen[seen.index("-settings") + 1] == "/etc/ivysettings.xml"


def test_the_connector_of_the_running_spark_is_preferred(monkeypatch):
    asked = []
    monkeypatch.setattr(jars, "fetch", lambda choices: asked.extend(choices) or [])
    jars.connector_jars("4.3.7")
    assert asked[0].modules[0].version == asked[0].forced[0].version == "4.3.7"
    assert len(asked) > 1
