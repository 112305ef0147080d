"""Our schema: up to date, apart from the default pool, and equal to the engine's."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from smg_grpc_proto.generated import common_pb2, sglang_scheduler_pb2

from sglrouter._proto import common, scheduler
from sglrouter._proto.pool import POOL

ROOT = Path(__file__).parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_modules_are_those_of_the_protos() -> None:
    for name, text in generator().render().items():
        assert (ROOT / "sglrouter" / "_proto" / name).read_text() == text, f"make proto: {name}"


def test_our_schema_stays_out_of_the_default_pool() -> None:
    theirs = descriptor_pool.Default().FindFileByName("sglang_scheduler.proto")
    assert theirs is sglang_scheduler_pb2.DESCRIPTOR
    assert POOL.FindMessageTypeByName("sglang.grpc.scheduler.SamplingParams") is not (
        descriptor_pool.Default().FindMessageTypeByName("sglang.grpc.scheduler.SamplingParams")
    )


def file_of(module: object) -> FileDescriptorProto:
    proto = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(proto)  # type: ignore[attr-defined]
    return proto


PAIRS = [(scheduler, sglang_scheduler_pb2), (common, common_pb2)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=["scheduler", "common"])
def test_all_that_we_declare_is_the_engines(ours: object, theirs: object) -> None:
    our_file, their_file = file_of(ours), file_of(theirs)
    assert our_file.package == their_file.package
    their_messages = {message.name: message for message in their_file.message_type}
    for message in our_file.message_type:
        compare(message, their_messages[message.name], message.name)


def compare(ours: DescriptorProto, theirs: DescriptorProto, where: str) -> None:
    fields = {field.name: field for field in theirs.field}
    for field in ours.field:
        other = fields[field.name]
        context = f"{where}.{field.name}"
        assert field.number == other.number, context
        assert field.type == other.type, context
        assert field.label == other.label, context
        assert field.type_name == other.type_name, context
        assert field.proto3_optional == other.proto3_optional, context
        assert oneof(ours, field) == oneof(theirs, other), context
    nested = {message.name: message for message in theirs.nested_type}
    for message in ours.nested_type:
        assert message.options.map_entry == nested[message.name].options.map_entry
        compare(message, nested[message.name], f"{where}.{message.name}")


def oneof(message: DescriptorProto, field: FieldDescriptorProto) -> str | None:
    if not field.HasField("oneof_index"):
        return None
    return message.oneof_decl[field.oneof_index].name


def test_every_rpc_is_the_engines() -> None:
    (ours,) = file_of(scheduler).service
    (theirs,) = file_of(sglang_scheduler_pb2).service
    assert ours.name == theirs.name
    their_methods = {method.name: method for method in theirs.method}
    for method in ours.method:
        assert method == their_methods[method.name]


def test_the_two_schemas_read_each_other() -> None:
    request = scheduler.GenerateRequest(
        request_id="id",
        tokenized=scheduler.TokenizedInput(input_ids=[1, 300, 70000]),
        sampling_params=scheduler.SamplingParams(
            temperature=0.5, max_new_tokens=0, logit_bias={"5": 1.0}, regex="a"
        ),
    )
    theirs = sglang_scheduler_pb2.GenerateRequest.FromString(request.SerializeToString())
    assert list(theirs.tokenized.input_ids) == [1, 300, 70000]
    assert theirs.sampling_params.HasField("max_new_tokens")
    assert scheduler.GenerateRequest.FromString(theirs.SerializeToString()) == request
