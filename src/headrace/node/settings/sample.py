"""A configuration file to begin with: every setting at its default, commented out, with its meaning. Uncommented as it
stands it changes nothing, which a test holds."""

from __future__ import annotations

import json
import textwrap

from headrace.node.settings.kinds import Plain
from headrace.node.settings.setting import TOPIC_DEFAULTS, Setting
from headrace.node.settings.table import SECTIONS, SETTINGS

WIDTH = 110
HEAD = """\
# A node's settings. A flag wins over a variable, a variable over this file, this file over the defaults.
# What is commented out is the default. Sizes take units (64MiB), and so do durations (10m, 7d).
# `headrace config validate` checks this file, `headrace config explain KEY` says more about a setting.
"""


def sample() -> str:
    parts = [HEAD]
    for section, about in SECTIONS.items():
        parts.append(f"\n# {about}\n[{section}]\n")
        parts += [_entry(setting) for setting in SETTINGS if setting.section == section]
    return "".join(parts)


def _entry(setting: Setting[object]) -> str:
    about = textwrap.fill(setting.meaning, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    name = setting.key.removeprefix(f"{setting.section}.")
    kind = setting.kind
    value = kind.parse(setting.default)
    plain = kind.plain(value)
    if isinstance(plain, int) and not isinstance(plain, bool) and (text := kind.show(value)) != str(plain):
        plain = text
    return f"\n{about}\n# {_key(name, setting)} = {_toml(plain)}\n"


def _key(name: str, setting: Setting[object]) -> str:
    return f'"{name}"' if setting.key.startswith(TOPIC_DEFAULTS) else name


def _toml(value: Plain) -> str:
    """What JSON and TOML write alike, which all our defaults are; an empty table apart."""
    return '""' if value is None else "{}" if value == {} else json.dumps(value)
