"""The private descriptor pool that holds our schema.

The default pool is shared by every package in the process, and two packages that
declare `sglang.grpc.scheduler` there (ours and `smg-grpc-proto`) cannot both be
imported. A pool of our own avoids that, and the version locks of protoc's generated
code with it.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()

for _well_known in (struct_pb2, timestamp_pb2):
    POOL.AddSerializedFile(_well_known.DESCRIPTOR.serialized_pb)


def register(namespace: dict[str, Any], serialized_file: bytes) -> None:
    """Adds one file to the pool and puts its message classes into `namespace`."""
    POOL.AddSerializedFile(serialized_file)
    parsed = descriptor_pb2.FileDescriptorProto.FromString(serialized_file)
    file = POOL.FindFileByName(parsed.name)
    namespace["DESCRIPTOR"] = file
    for name, descriptor in file.message_types_by_name.items():
        namespace[name] = message_factory.GetMessageClass(descriptor)
