"""What a node is told, from every side: flags over environment over a file over defaults.

| file | is |
|---|---|
| table | every setting: key, flag, variable, what it takes, default, meaning |
| kinds, topics, levels | what settings take |
| sources, file, lines | where values come from |
| tree | the sources made one, with all their problems |
| values | the result, as the rest of the program knows it |
"""

from headrace.node.settings.file import PLACES
from headrace.node.settings.kinds import Address
from headrace.node.settings.setting import Setting
from headrace.node.settings.sources import InvalidSettings, Problem, unknown_variables
from headrace.node.settings.table import SETTINGS
from headrace.node.settings.tree import Tree, load
from headrace.node.settings.values import Settings, read, settings_of

__all__ = [
    "PLACES",
    "SETTINGS",
    "Address",
    "InvalidSettings",
    "Problem",
    "Setting",
    "Settings",
    "Tree",
    "load",
    "read",
    "settings_of",
    "unknown_variables",
]
