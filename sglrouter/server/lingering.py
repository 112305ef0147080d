"""The end of a connection whose client is still sending.

To close a socket with unread bytes in it resets the connection, and a reset takes from the
client what it has not read yet: the very answer that says what was wrong. So the answer's
end is told first, and what still comes is thrown away for a while.
"""

from __future__ import annotations

import socket
from time import monotonic
from typing import Any

# Seconds: longest in all, and longest silence meanwhile.
LONGEST = 30.0
_SILENCE = 3.0

# Nobody looks at it, so that all may share it.
_refuse = bytearray(64 * 1024)


def linger(sock: Any, longest: float = LONGEST) -> None:
    """Waits until the client has closed its end, and throws away what it sends.

    Args:
        sock: Its socket, which is to be closed.
        longest: Longest time in seconds.
    """
    deadline = monotonic() + longest
    try:
        sock.shutdown(socket.SHUT_WR)
        while (left := deadline - monotonic()) > 0:
            sock.settimeout(min(left, _SILENCE))
            if not sock.recv_into(_refuse):
                return
    except OSError:
        return
