"""The flags of `serve`: one for each setting, and their help. `--name VALUE` or `--name=VALUE`; given twice, the last
counts, so that a script can add to what it was given.

Read by hand rather than by a framework: the table of settings says all there is to say about a flag, wrong ones are
told together with every other problem of the settings, and a node is up before a framework would be imported.
"""

from __future__ import annotations

from headrace.node.settings.setting import TOPIC_SECTION, Setting
from headrace.node.settings.sources import CONFIG_FLAG, CONFIG_VARIABLE, FOREIGN_FLAGS, Problem
from headrace.node.settings.table import BY_FLAG, SECTIONS, SETTINGS

WIDTH = 100
DEFAULT_PORT = "9092"
INDENT = 28  # where the words begin

USAGE = "Usage: headrace serve [FLAG VALUE]…"
ABOUT = """\
Runs a node until Ctrl-C or SIGTERM.

Each setting can be given as a flag, as a variable (HEADRACE_ and the flag's name: --node-id is
HEADRACE_NODE_ID) or in a file. A flag wins over a variable, a variable over the file, the file over
the default. Sizes take units (64MiB), and so do durations (10m, 7d). `headrace config explain NAME`
says what a setting takes, and where its value comes from; `headrace config init` writes a file with
all of them.

As a json broker is told: --broker-id N is --node-id N, and beside it --host and --port are --json."""
CONFIG_ABOUT = f"""TOML or JSON file with settings; off: none (default: headrace.toml, headrace.json or
config/broker.json here, or /etc/headrace/headrace.toml). Its variable is {CONFIG_VARIABLE}."""
EXAMPLES = """\
Examples:
  headrace serve
  headrace serve --data ./data --kafka 0.0.0.0:9092 --kafka-advertised broker.example:9092
  headrace serve --config headrace.toml --log-level debug
  headrace serve --default-topics orders:3,payments --topic-retention-ms 1d"""


def parse(given: list[str]) -> tuple[dict[str, str | None], list[Problem]]:
    """Flags by name without dashes; names that are none are left to whoever knows the settings."""
    flags: dict[str, str | None] = {}
    problems: list[Problem] = []
    words = list(given)
    has_broker_id = any(word.partition("=")[0] == f"--{FOREIGN_FLAGS[0]}" for word in words)
    while words:
        word = words.pop(0)
        if not word.startswith("--") or word == "--":
            problems.append(Problem(word, "serve takes flags alone, as in --data DIR"))
            continue
        name, equals, value = word[2:].partition("=")
        if not equals and words and not words[0].startswith("--"):
            value, equals = words.pop(0), "="
        if name in FOREIGN_FLAGS[1:] and not has_broker_id:
            host, port = (value, DEFAULT_PORT) if name == "host" else ("127.0.0.1", value)
            meant = f"--kafka {host or '127.0.0.1'}:{port or DEFAULT_PORT}"
            problems.append(Problem(word, f"is not a flag; did you mean {meant}? (With --broker-id: the json door's.)"))
        elif not equals and (name in BY_FLAG or name in (CONFIG_FLAG, *FOREIGN_FLAGS)):
            metavar = BY_FLAG[name].kind.metavar if name in BY_FLAG else "FILE" if name == CONFIG_FLAG else "VALUE"
            problems.append(Problem(word, f"needs a value: --{name} {metavar}"))
        else:
            flags[name] = value
    return flags, problems


def help_text() -> str:
    lines = [USAGE, "", ABOUT, ""]
    lines += _entry(f"--{CONFIG_FLAG} FILE", CONFIG_ABOUT)
    for section, title in SECTIONS.items():
        inside = [setting for setting in SETTINGS if setting.section == section]
        lines += ["", title]
        if section == TOPIC_SECTION:
            lines += _wrapped("  ".join(f"--{setting.flag}" for setting in inside), 2)
            continue
        for setting in inside:
            default = default_text(setting)
            words = setting.meaning + (f" (default: {default})" if default else "")
            lines += _entry(f"--{setting.flag} {setting.kind.metavar}", words)
    return "\n".join([*lines, "", EXAMPLES])


def default_text(setting: Setting[object]) -> str:
    return setting.kind.show(setting.kind.parse(setting.default))


def _entry(head: str, words: str) -> list[str]:
    first, *rest = _wrapped(words, INDENT)
    if len(head) + 4 > INDENT:
        return [f"  {head}", first, *rest]
    return [f"  {head:{INDENT - 2}}" + first[INDENT:], *rest]


def _wrapped(words: str, indent: int) -> list[str]:
    import textwrap

    blank = " " * indent
    return textwrap.wrap(
        words, WIDTH, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False, break_long_words=False
    )
