"""How many files and sockets a worker may have open.

Each client connection is one. At the limit new clients are neither accepted nor refused,
and shells commonly set it to 1024, below what a worker is configured to serve.
"""

from __future__ import annotations

import logging
import resource

logger = logging.getLogger(__name__)

# Connections that are one too many, engines, listening sockets, logs, and what libraries
# keep open.
_BESIDES_CLIENTS = 192


def allow_open_files(connections: int) -> None:
    """Raises this process's limit, which its workers inherit, to what they need.

    Args:
        connections: The client connections of one worker.
    """
    needed = connections + _BESIDES_CLIENTS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):  # some sandboxes forbid the call
        most = soft
    if most < needed:
        logger.warning(
            "a worker may open %d files, which worker_connections = %d can exceed: raise the "
            "limit (LimitNOFILE of the systemd unit, or ulimit -n) to %d",
            most, connections, needed,
        )  # fmt: skip
