"""`headrace doctor`: what is wrong, here and on the server, with its cause and what to do about it.

finding.py says what a finding is; data.py, disk.py and machine.py look at this machine, cluster.py at a server through
probe.py; examination.py puts them in order and shows the result.
"""

from __future__ import annotations

from headrace.cli.doctor.examination import command

__all__ = ["command"]
