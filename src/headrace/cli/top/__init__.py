"""`headrace top`: what a server does right now. sample.py takes a look, view.py makes rates of two looks, screen.py
shows them, watching.py repeats that."""

from __future__ import annotations

from headrace.cli.top.watching import command

__all__ = ["command"]
