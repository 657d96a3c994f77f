"""A Spark standalone cluster of this machine: a master and two workers, each a JVM as a cluster has them, from the
pyspark package. On loopback and free ports, in temporary folders; stopped by their pids.

The workers know nothing of this project: they get no PYTHONPATH, and the Python that runs their tasks has what
Headrace depends on, but not Headrace. What they need of it must be sent to them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pyspark

from bench.servers import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
OURS = ("headrace", "_headrace", "_editable_impl_headrace", "pyspark_headrace")
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
HOST = "127.0.0.1"
HOSTS = (HOST, HOST)  # of the workers
APART = (HOST, "127.0.0.2")  # two machines, as far as Spark can see: a task is not speculated where it runs already


def stranger(folder: Path) -> Path:
    """A Python with everything that is installed here except what is ours."""
    venv.create(folder, symlinks=True, with_pip=False)
    home = folder / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(OURS):
            with contextlib.suppress(FileExistsError):
                (home / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


class Cluster:
    def __init__(self, folder: Path, hosts: tuple[str, ...] = HOSTS) -> None:
        self._folder, self._hosts = folder, hosts
        self._processes: list[subprocess.Popen[bytes]] = []
        self._port, self._page = free_ports(2)

    @property
    def master(self) -> str:
        return f"spark://{HOST}:{self._port}"

    @property
    def workers(self) -> list[int]:
        """Their pids; executors are their children."""
        return [process.pid for process in self._processes[1:]]

    def start(self) -> None:
        self._run("master.Master", HOST, "--port", str(self._port), "--webui-port", str(self._page))
        self._wait(0)
        for number, host in enumerate(self._hosts):
            work = self._folder / f"worker-{number}"
            sizes = ["--cores", "1", "--memory", "600m", "--webui-port", "0", "--work-dir", str(work)]
            self._run("worker.Worker", host, *sizes, self.master)
        self._wait(len(self._hosts))

    def _run(self, name: str, host: str, *arguments: str) -> None:
        known = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG") if name in os.environ}
        here = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self._folder),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", host]
        with open(self._folder / "output.log", "ab") as output:
            self._processes.append(
                subprocess.Popen(
                    [*command, *arguments],
                    cwd=self._folder,
                    env=known | here,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def _wait(self, workers: int) -> None:
        """Until the master serves its page, and that shows so many workers."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{HOST}:{self._page}/json/") as page:
                if f'"aliveworkers" : {workers}' in page.read().decode():
                    return
            time.sleep(0.1)
        raise AssertionError(f"the cluster did not come up:\n{self.output()}")

    def output(self) -> str:
        return (self._folder / "output.log").read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """Workers first: they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextlib.contextmanager
def running(folder: Path, hosts: tuple[str, ...] = HOSTS) -> Iterator[Cluster]:
    cluster = Cluster(folder, hosts)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
