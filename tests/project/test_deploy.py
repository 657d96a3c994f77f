"""The files under deploy/: no daemon is needed to find that a file they name is not there, that a setting they give
does not exist, or that a command they run does not work. The commands are run for real, without the container."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.cli import exits
from headrace.node.settings import PLACES, read
from headrace.node.settings.table import BY_VARIABLE, LISTEN
from headrace.testing.served import ServedBroker
from tools import dist, locked

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CONTEXT = ROOT / "build" / "context"
LIMIT_S = 30.0
BUILD_LIMIT_S = 600
MOST_EXPOSED = 2.0  # of 10, as systemd-analyze counts

Instruction = tuple[str, str]


def stages() -> list[list[Instruction]]:
    """The Dockerfile's instructions, stage by stage; what stands before the first FROM belongs to none."""
    text = re.sub(r"^\s*#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    found: list[list[Instruction]] = []
    for word, _, rest in (line.strip().partition(" ") for line in lines if line.strip()):
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, rest.strip()))
    return found


def copied(stage: list[Instruction]) -> Iterator[tuple[list[str], str]]:
    """What comes from the project: sources and target."""
    for word, rest in stage:
        if word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            yield sources, target


def environment(stage: list[Instruction]) -> dict[str, str]:
    return dict(re.findall(r"([A-Z_]+)=(\S+)", " ".join(rest for word, rest in stage if word == "ENV")))


def only(stage: list[Instruction], word: str) -> str:
    (rest,) = [rest for name, rest in stage if name == word]
    return rest


def is_sent(path: str) -> bool:
    """To docker, by the rules of .dockerignore: the last that fits decides."""
    sent = True
    for rule in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = rule.removeprefix("!")
        if rule and not rule.startswith("#") and (fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            sent = rule.startswith("!")
    return sent


def test_every_file_that_the_image_copies_is_there_and_is_sent() -> None:
    sources = [source for stage in stages() for sources, _ in copied(stage) for source in sources]
    assert "src" in sources and "native" in sources
    for source in sources:
        assert (ROOT / source).exists() and is_sent(source), source
    assert not is_sent("native/target/release") and not is_sent(".git") and not is_sent("headrace-data")


def test_an_image_is_built_on_versions_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)", text, re.MULTILINE))
    for stage in stages():
        base = re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], stage[0][1].split()[0])
        assert re.search(r":\d", base), f"{base} has no version"
    last = stages()[-1]
    assert only(last, "USER") == "headrace"
    assert not [rest for word, rest in last if word == "ADD"]
    data = environment(last)["HEADRACE_DATA"]
    assert data.startswith(only(last, "VOLUME"))
    assert json.loads(only(last, "ENTRYPOINT")) + json.loads(only(last, "CMD")) == ["headrace", "serve"]


def test_the_image_gives_settings_that_exist_and_exposes_the_ports_that_they_name() -> None:
    last = stages()[-1]
    given = {name: value for name, value in environment(last).items() if name.startswith("HEADRACE_")}
    assert set(given) <= set(BY_VARIABLE)
    settings = read({}, given)
    assert set(settings.listen()) == set(LISTEN)
    assert all(address.host == "0.0.0.0" for address in settings.listen().values())
    assert only(last, "EXPOSE").split() == [str(address.port) for address in settings.listen().values()]


def test_the_health_check_of_the_image_tells_a_node_that_serves_from_one_that_does_not(tmp_path: Path) -> None:
    _, _, command = only(stages()[-1], "HEALTHCHECK").partition(" CMD ")
    with ServedBroker(tmp_path) as broker:
        python, *rest = json.loads(command.replace("127.0.0.1:8081", broker.http))
        assert python == "python"
        check = [sys.executable, *rest]
        assert subprocess.run(check, capture_output=True, timeout=LIMIT_S).returncode == 0
        broker.stop()
        assert subprocess.run(check, capture_output=True, timeout=LIMIT_S).returncode != 0


def test_what_the_image_copies_is_enough_to_build_the_wheel(tmp_path: Path) -> None:
    refill(stages()[1])
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t", "wheel"]
    subprocess.run(build, cwd=CONTEXT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.iterdir())) as wheel:
        packaged = set(wheel.namelist())
    assert {f"headrace/{path}" for path in ("__init__.py", "py.typed", "cli/serve.py")} <= packaged
    assert (CONTEXT / "native" / "Cargo.toml").exists() and not (CONTEXT / "native" / "target").exists()


@pytest.mark.long
@pytest.mark.timeout(BUILD_LIMIT_S)
@pytest.mark.skipif(shutil.which("cargo") is None, reason="the image has cargo, this machine does not")
def test_the_image_builds_the_same_bytes_as_we_do_here(tmp_path: Path) -> None:
    """In another folder, from what is copied alone, with nothing built before."""
    build = stages()[1]
    refill(build)
    (command,) = [rest.split() for word, rest in build if word == "RUN" and "dist.py" in rest]
    assert command == ["python", "tools/dist.py", "/dist"]
    for folder, out in ((CONTEXT, tmp_path / "there"), (ROOT, tmp_path / "here")):
        line = [sys.executable, command[1], str(out)]
        subprocess.run(line, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "there" / dist.SUMS).read_text() == (tmp_path / "here" / dist.SUMS).read_text()


def refill(stage: list[Instruction]) -> None:
    """The build's folder as docker would fill it."""
    shutil.rmtree(CONTEXT, ignore_errors=True)
    for sources, target in copied(stage):
        for source in sources:
            to = CONTEXT / (source if target.endswith("/") else target)
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, to, ignore=_unsent)
            else:
                shutil.copy2(ROOT / source, to)


def _unsent(folder: str, names: list[str]) -> list[str]:
    above = Path(folder).relative_to(ROOT)
    return [name for name in names if not is_sent(str(above / name))]


def test_what_the_image_is_built_with_is_locked() -> None:
    (line,) = [rest for word, rest in stages()[1] if word == "RUN" and "locked.py" in rest]
    asked = line.partition("locked.py ")[2].partition(" >")[0].split()
    chosen = locked.locked(asked, locked.LOCK.read_text())
    names = re.findall(r"^([a-z0-9-]+)==", chosen, re.MULTILINE)
    assert set(asked) < set(names) and len(names) < 15
    assert chosen.count("--hash=sha256:") >= len(names)
    with pytest.raises(SystemExit, match="zebra"):
        locked.locked(["zebra"], locked.LOCK.read_text())


def test_the_compose_file_names_files_that_are_there_and_settings_that_exist() -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())
    services = compose["services"]
    assert set(services) == {"headrace", "prometheus", "grafana"}
    assert (DEPLOY / services["headrace"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / services["headrace"]["build"]["dockerfile"]).exists()
    assert set(services["headrace"]["environment"]) <= set(BY_VARIABLE)
    for name, service in services.items():
        for mounted in service.get("volumes", []):
            source = mounted.split(":")[0]
            assert source in compose["volumes"] or (DEPLOY / source).exists(), f"{name}: {source}"
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{name}: {port} is open to everybody"
        assert name == "headrace" or re.search(r":v?\d", service["image"])
    scrapes = yaml.safe_load((DEPLOY / "grafana" / "prometheus.yml").read_text())["scrape_configs"]
    assert "headrace:8081" in json.dumps(scrapes)


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (DEPLOY / "headrace.service").read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def test_the_unit_gives_settings_that_exist_and_does_not_repeat_a_start_that_cannot_work() -> None:
    told = unit()
    given = dict(value.split("=", 1) for value in told["Environment"])
    assert {name for name in given if name.startswith("HEADRACE_")} <= set(BY_VARIABLE)
    assert given["HEADRACE_DATA"].startswith(f"/var/lib/{told['StateDirectory'][0]}/")
    assert f"/etc/{told['ConfigurationDirectory'][0]}/headrace.toml" in PLACES
    assert told["RestartPreventExitStatus"] == [str(exits.USAGE)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_finds_it_well_shut(tmp_path: Path) -> None:
    text = (DEPLOY / "headrace.service").read_text()
    copy = tmp_path / "headrace.service"
    copy.write_text(text.replace("/opt/headrace/bin/headrace", sys.executable))
    verified = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=LIMIT_S)
    assert (verified.returncode, verified.stderr) == (0, "")
    shut = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(copy)]
    judged = subprocess.run(shut, capture_output=True, text=True, timeout=LIMIT_S)
    if judged.returncode and "offline" in judged.stderr:
        pytest.skip("this systemd-analyze cannot judge a file")
    level = re.search(r"exposure level for headrace.service: ([0-9.]+)", judged.stdout)
    assert level is not None and float(level[1]) <= MOST_EXPOSED


def test_a_node_tells_systemd_when_it_serves_and_when_it_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit()["Type"] == ["notify"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(LIMIT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with ServedBroker(tmp_path / "node") as broker:
            assert told.recv(100) == b"READY=1"
            os.kill(broker.pid, signal.SIGTERM)
            assert told.recv(100) == b"STOPPING=1"


def test_nobody_to_tell_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with ServedBroker(tmp_path / "node") as broker:
        assert broker.is_running
