"""Records docs/session.md: commands run against a real broker, in a real terminal, as the page shows them.

What differs from run to run (ids, times, sizes of the disk) is put in a fixed form, so that the page only changes when
the commands do; a test records the session anew and compares.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from headrace.testing.served import ServedBroker

PAGE = Path(__file__).resolve().parent.parent / "docs" / "session.md"
ROWS, COLUMNS = 40, 100
LIMIT_S = 60
QUESTION = b"go on: "

HEAD = """# A session at the terminal

Recorded from a real run on a fresh node (tools/terminal.py); a check fails when it no longer reads like this. Ids,
times and disk sizes are put in a fixed form.
"""


# A line with $ is typed as a command, one with > is typed when the command asks; the others are said between them.
SCRIPT = r"""
Who serves here?
$ headrace cluster describe
A topic.
$ headrace topic create orders --partitions 2 -c retention.ms=7d
$ headrace topic list
Records from the command line, from a pipe, and as JSON with keys and headers.
$ headrace produce orders first second --key customer-7
$ seq 3 | headrace produce orders --partition 0
$ echo '{"key": "c8", "value": {"total": 12.5}, "headers": {"source": "shop"}}' > order.jsonl
$ headrace produce orders --format jsonl --file order.jsonl --partition 1 -o json
Reading: what is there, the last of each partition in a format, only what matters, and as a table.
$ headrace consume orders --partition 0
$ headrace consume orders --start -1 -f 'partition %p, offset %o: %k %s\n'
$ headrace consume orders --filter header.source=shop --filter 'value.total>10' -o jsonl
$ headrace tail orders -n 2 --partition 0 --no-follow -o table
How the topic stands.
$ headrace topic describe orders
A shorter retention lets records go earlier, so it asks.
$ headrace topic alter orders -c retention.ms=1d
> yes
Trimming is for good; a dry run shows it first.
$ headrace topic trim orders --before end --partition 0 --dry-run
$ headrace topic trim orders --before end --partition 0 --yes
Mistakes are named, with what was meant.
$ headrace topic describe odrers; echo "exit code $?"
$ headrace topci list; echo "exit code $?"
Servers by name.
$ headrace context set here $HEADRACE_SERVER --note 'my own'
$ headrace context list
And away with it.
$ headrace topic delete orders
> yes
$ headrace topic list
$ headrace context delete here
"""

FIXED = (
    (
        re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "c0ffee00-0000-4000-8000-000000000001",
    ),
    (re.compile(r"(?<=CLUSTER     )\S{22}"), "AAAAAAAAAAAAAAAAAAAAAA"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:19092"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "2026-01-31T12:00:00.000Z"),
    (re.compile(r'("timestamp_ms":) ?\d{13}'), r"\g<1>1769860800000"),
    (re.compile(r'("seconds": )[\d.]+'), r"\g<1>0.01"),
    (re.compile(r" {2,}\d+\.\d (?:MiB|GiB|TiB)$", re.MULTILINE), "   100.0 GiB"),
    (re.compile(r"\b\d{3} B\b"), "400 B"),  # how many batches it was is a matter of moments
)
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def session() -> str:
    """The page, from a run of its own."""
    with tempfile.TemporaryDirectory(prefix="headrace-session-") as folder, ServedBroker(Path(folder)) as broker:
        environment = {
            "HEADRACE_SERVER": broker.address,
            "HOME": folder,
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        text, fence = HEAD, ""
        lines = SCRIPT.strip().splitlines()
        for number, line in enumerate(lines):
            if line.startswith("$ "):
                typed = [answer[2:] for answer in lines[number + 1 : number + 2] if answer.startswith("> ")]
                text += f"{line}\n{tidy(run(line[2:], typed, folder, environment))}"
            elif not line.startswith("> "):
                text += f"{fence}\n{line}\n\n```console\n"
                fence = "```\n"
        return text + fence


def run(command: str, typed: list[str], folder: str, environment: dict[str, str]) -> str:
    """What a person would see."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the last one has closed the other end
            break
        seen += part
        if not part:
            break
        if typed and seen.endswith(QUESTION):
            os.write(ours, typed.pop(0).encode() + b"\n")
    os.close(ours)
    process.wait(LIMIT_S)
    return seen.decode()


def tidy(text: str) -> str:
    text = ESCAPE.sub("", text.replace("\r\n", "\n"))
    for pattern, fixed in FIXED:
        text = pattern.sub(fixed, text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def main() -> int:
    PAGE.write_text(session())
    return 0


if __name__ == "__main__":
    sys.exit(main())
