"""Writes the pages about settings from the two places where settings are defined: docs/settings.md whole, from the
node's table, and the table of topic settings in docs/operating.md."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.broker.config import SETTINGS as TOPIC_TABLE
from headrace.broker.values import MAX_LONG
from headrace.cli.flags import default_text
from headrace.node.settings.file import PLACES
from headrace.node.settings.sources import CONFIG_VARIABLE
from headrace.node.settings.table import SECTIONS, SETTINGS, Setting

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, REFERENCE = DOCS / "operating.md", DOCS / "settings.md"
BEGIN = "<!-- topic settings: made by tools/settings_page.py -->\n"
END = "<!-- /topic settings -->"

HEAD = f"""\
# Settings

<!-- Made by tools/settings_page.py from the table of settings: `make figures` writes it anew. -->

What a node is told when it starts. There is one tree of settings, and each of them has a key in a file, a flag of
`headrace serve` and a variable:

| | looks like | wins over |
|---|---|---|
| flag | `--idle-ms 5m` | everything |
| variable | `HEADRACE_IDLE_MS=5m` | file, default |
| file | `[kafka]`, `idle-ms = "5m"` | default |
| default | | |

The file is named by `--config FILE` or `{CONFIG_VARIABLE}` (`off`: none is read). Otherwise the first of
{", ".join(f"`{place}`" for place in PLACES)} that exists is read. It is TOML, or JSON of the same shape; `_` and `-` in
a key are the same. `headrace config init` writes one with every setting commented out.

- **Sizes** are bytes, or have a unit: `64KiB`, `16MiB`, `1GiB` (also `16M`); `16MB` is 16,000,000.
- **Durations** are milliseconds, or have a unit: `500ms`, `30s`, `10m`, `12h`, `7d`, `1h30m`.
- **Addresses** are `HOST:PORT`, `[::1]:9092` for IPv6; port 0 takes any free one.
- **Paths** that do not begin with `/` go from the folder in which the node is started, in a file too.

A key that does not exist, a value that a setting does not take, a thing said twice: all such problems are told at once,
each with its file and line, flag or variable, and nothing starts. A variable that only begins with `HEADRACE_` is told
and has no effect.

```
headrace config show --changed            # what is not at its default, and who said so
headrace config explain kafka.listen      # what it is, what it takes, where its value comes from
headrace config validate headrace.toml    # every problem, exit code 8 if there is one
```

A file with what people change first:

```toml
[node]
data = "/var/lib/headrace"

[kafka]
listen = "0.0.0.0:9092"
advertised = "broker.example:9092"        # what clients are told to connect to

[topics]
default = ["orders:3", {{ name = "audit", config = {{ "retention.ms" = "never" }} }}]

[topic.defaults]
retention.ms = "2d"
retention.bytes = "10GiB"

[log.levels]
kafka = "debug"
```
"""


def table() -> str:
    rows = ["| setting | default | does |", "|---|---|---|"]
    for setting in TOPIC_TABLE.values():
        default = "never" if setting.default == MAX_LONG else str(setting.default)
        rows.append(f"| `{setting.name}` | {default} | {setting.doc} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + table() + END + tail


def reference() -> str:
    return HEAD + "".join(_section(section, about) for section, about in SECTIONS.items())


def _section(name: str, about: str) -> str:
    rows = [_row(setting) for setting in SETTINGS if setting.section == name]
    head = "| key | flag and variable | default | takes | does |\n|---|---|---|---|---|\n"
    return f"\n## [{name}]\n\n{about}\n\n{head}{''.join(rows)}"


def _row(setting: Setting[object]) -> str:
    default = default_text(setting)
    cells = [
        f"`{setting.key}`",
        f"`--{setting.flag}`<br>`{setting.variable}`",
        f"`{default}`" if default else "",
        setting.kind.takes,
        setting.meaning,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main() -> int:
    PAGE.write_text(page(PAGE.read_text()))
    REFERENCE.write_text(reference())
    return 0


if __name__ == "__main__":
    sys.exit(main())
