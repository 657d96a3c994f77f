"""What every test stands on: hypothesis without deadlines, because the machines that run it are shared; and a Ctrl-C
that arrives, also where whoever started the tests in the background had it ignored, which every process started from
here would inherit."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("headrace", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("headrace")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
