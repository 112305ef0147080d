"""A grpcio server that sends as fast as it can."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc


class Flood:
    """Answers Generate without end.

    Attributes:
        sent: How many messages it has got rid of.
        address: Where it listens.
    """

    def __init__(self) -> None:
        self.sent = 0
        handlers = grpc.method_handlers_generic_handler(
            "sglang.grpc.scheduler.SglangScheduler",
            {"Generate": grpc.unary_stream_rpc_method_handler(self._generate)},
        )
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((handlers,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def _generate(self, _request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        while context.is_active() and self.sent < 100_000:
            self.sent += 1
            yield bytes(10_000)

    def stop(self) -> None:
        """Ends the server and its calls."""
        self._server.stop(0).wait()
