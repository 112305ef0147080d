"""Tells of a port that another program holds, before anything else is started.

gunicorn tries for six seconds and logs an error each time. Who starts the router at a
terminal wants one line that says what to do.
"""

from __future__ import annotations

import errno
import socket

from sglrouter.errors import ConfigError

_SAID = {
    errno.EADDRINUSE: "another program has it",
    errno.EACCES: "this user may not listen on it",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


def refuse_taken_port(host: str, port: int, remedy: str) -> None:
    """Checks that the port can be listened on, the way gunicorn will.

    Args:
        host: The address.
        port: The port.
        remedy: What sets it.

    Raises:
        ConfigError: It cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            # SO_REUSEADDR lets two sockets bind; only one of them may listen.
            probe.listen(1)
    except OSError as exc:
        reason = _SAID.get(exc.errno or 0, str(exc))
        raise ConfigError(
            f"cannot listen on {host} port {port}: {reason}; choose with {remedy}"
        ) from exc
