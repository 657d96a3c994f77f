"""Writes the pages about settings from the two places where settings are defined: docs/settings.md whole, from the
node's table, and the table of topic settings in docs/operating.md."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.broker.config import SETTINGS as TOPIC_TABLE
from headrace.broker.values import MAX_LONG
from headrace.cli.flags import default_text
from headrace.node.settings import broker_json, foreign
from headrace.node.settings.file import PLACES
from headrace.node.settings.setting import Setting
from headrace.node.settings.sources import CONFIG_VARIABLE
from headrace.node.settings.table import SECTIONS, SETTINGS

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
| variable | `HEADRACE_IDLE_MS=5m` | other brokers' variables, file, default |
| another broker's variable | `QB_SERVER_PORT=9999` | file, default |
| file | `[kafka]`, `idle-ms = "5m"` | default |
| default | | |

The file is named by `--config FILE` or `{CONFIG_VARIABLE}` (`off`: none is read). Otherwise the first of
{", ".join(f"`{place}`" for place in PLACES)} that exists is read. It is TOML, or JSON of the same shape; `_` and `-` in
a key are the same. `headrace config init` writes one with every setting commented out.

- **Sizes** are bytes, or have a unit: `64KiB`, `16MiB`, `1GiB` (also `16M`); `16MB` is 16,000,000.
- **Durations** are milliseconds, or have a unit: `500ms`, `30s`, `10m`, `12h`, `7d`, `1h30m`.
- **Addresses** are `HOST:PORT`, `[::1]:9092` for IPv6; port 0 takes any free one.
- **Paths** that do not begin with `/` go from the folder in which the node is started, in a file too.

The doors are `kafka`, `binary`, `lines`, `json`, `http` and `msgpack`; each has a section below, a flag of its name and
`off`. A port that is taken is named when the node starts, with the flag that moves it.

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


FOREIGN = """
## Coming from another broker

Whoever has run one of the brokers whose protocols the doors speak can start a node with the settings that there are.
Their variables are taken (weaker than ours, stronger than a file), and so is `config/broker.json` in the shape of the
binary protocol's own broker. `headrace config show --changed` says what came of it, and `headrace config explain
QB_DATA_DIR` what a variable sets. What has no effect is told at the start, and never silently taken.

What was stored is brought over apart: a node keeps its data in a folder of its own, and does not start in one that
holds another broker's files. It says whose they are, and what to do: `headrace serve --data NEW`, and while that runs
`headrace import lines|binary|pubsub OLD` ([importing](importing.md)). The old folder is only read.

| variable | sets |
|---|---|
{variables}

`BROKER_ID` alone also moves the http door to port {http_port} and the id, and the data to the folder `data` and the id,
unless anything else says where they are. Half of an address (`QB_SERVER_PORT`) leaves the other half as weaker sources
have it. `QB_CONFIG_FILE` names the configuration file, after `{config}`. `BROKER_API` and `BROKER_PEERS` are for
clients: `headrace publish --door http` asks there.

The flags of a broker of the json protocol are taken by `headrace serve` too: `--broker-id N` is `--node-id N`, and
beside it `--host` and `--port` are the halves of `--json` (its usual port is 9000 and the id). What clients of other
brokers are told on their command lines is [here](cli.md#flags-of-other-clients).

| variable | has no effect, because |
|---|---|
{idle}

{refused}: a node does not start with it, because what is stored would not be encrypted. Let the disk below do that.

`config/broker.json` is known by its sections (`server`, `storage`, `client`, `logging`):

| key in the file | sets | when it is left out |
|---|---|---|
| `server.host`, `server.port` | `binary.listen` | |
{keys}
| `logging.level` | `log.level` | |

With such a file come that broker's limits on what enters through the binary door, whether or not it names them, and its
topics: {topics}. Other keys of it have no effect: {idle_keys}.
"""


def foreign_section() -> str:
    keys = [f"| `{'.'.join(path)}` | `{key.key}` | {_implied(key)} |" for path, key in broker_json.KEYS.items()]
    topics = [f"`{name}` ({count} partition{'s' if count > 1 else ''})" for name, count in broker_json.START_TOPICS]
    return FOREIGN.format(
        variables="\n".join(f"| `{name}` | `{key}` |" for name, key in foreign.BY_VARIABLE.items()),
        http_port=foreign.HTTP_PORT,
        config=CONFIG_VARIABLE,
        idle="\n".join(f"| `{name}` | {why} |" for name, why in foreign.IDLE.items()),
        refused=" and ".join(f"`{name}`" for name in foreign.REFUSED),
        keys="\n".join(keys),
        topics=", ".join(topics),
        idle_keys=", ".join(f"`{'.'.join(path)}`" for path in broker_json.IDLE_KEYS),
    )


def _implied(key: broker_json.Key) -> str:
    if key.implied is None:
        return ""
    return f"{key.implied} {'h' if key.unit == broker_json.HOUR_MS else 's'}" if key.unit > 1 else str(key.implied)


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
    return HEAD + foreign_section() + "".join(_section(section, about) for section, about in SECTIONS.items())


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
