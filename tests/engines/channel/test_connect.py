"""Which kind of channel leads to an engine: by the setting, what is built, and the process."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from sglrouter.endpoint import parse_endpoint
from sglrouter.engines.channel import connect as connect_module
from sglrouter.engines.channel.channel import Channel, ChannelOptions
from sglrouter.engines.channel.connect import connector, http2_is_built
from sglrouter.engines.channel.grpcio import GrpcioChannel
from sglrouter.errors import ConfigError

_USUAL = ChannelOptions()
PLAIN, TLS = "grpc://127.0.0.1:1", "grpcs://127.0.0.1:1"


def process(monkeypatch: pytest.MonkeyPatch, *, built: bool, patched: bool) -> None:
    """A process in which the extension is built or not, and gevent has patched or not."""
    monkeypatch.setattr(connect_module, "http2_is_built", lambda: built)
    monkeypatch.setattr(connect_module, "is_module_patched", lambda name: patched)


def kind_of(kind: str, address: str, options: ChannelOptions = _USUAL) -> str:
    channel: Channel = connector(kind, options)(parse_endpoint(address))
    with closing(channel):
        return type(channel).__name__


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    ("kind", "address", "patched", "wanted"),
    [
        ("auto", PLAIN, True, "Http2Channel"),
        ("native", PLAIN, True, "Http2Channel"),
        # What the native channel does not do, grpcio does: TLS, and threads.
        ("auto", TLS, True, "GrpcioChannel"),
        ("auto", PLAIN, False, "GrpcioChannel"),
        ("auto", TLS, False, "GrpcioChannel"),
        ("grpcio", PLAIN, True, "GrpcioChannel"),
        ("grpcio", TLS, True, "GrpcioChannel"),
        ("grpcio", PLAIN, False, "GrpcioChannel"),
    ],
)
def test_the_first_that_fits(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    address: str,
    patched: bool,
    wanted: str,
) -> None:
    process(monkeypatch, built=True, patched=patched)
    assert kind_of(kind, address) == wanted
    assert not caplog.messages


def test_native_and_tls_do_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    process(monkeypatch, built=True, patched=True)
    connect = connector("native")
    with pytest.raises(ConfigError, match=f"native does not speak TLS, which {TLS} needs"):
        connect(parse_endpoint(TLS))


def test_native_needs_a_process_that_gevent_has_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    process(monkeypatch, built=True, patched=False)
    with pytest.raises(ConfigError, match="native needs gevent"):
        connector("native")(parse_endpoint(PLAIN))


def test_native_must_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    process(monkeypatch, built=False, patched=True)
    with pytest.raises(ConfigError, match=r"channel: .* install libnghttp2"):
        connector("native")


def test_what_is_not_built_is_told_once_where_it_would_be_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    process(monkeypatch, built=False, patched=True)
    connect = connector("auto")
    for address in (PLAIN, TLS, PLAIN):
        channel = connect(parse_endpoint(address))
        assert isinstance(channel, GrpcioChannel)
        channel.close()
    assert [("libnghttp2" in text) for text in caplog.messages] == [True]
    caplog.clear()
    # Who asks for grpcio gets it without a word.
    assert kind_of("grpcio", PLAIN) == "GrpcioChannel"
    assert caplog.messages == []


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(("kind", "patched"), [("auto", True), ("auto", False), ("grpcio", True)])
def test_each_channel_gets_the_options(
    monkeypatch: pytest.MonkeyPatch, kind: str, patched: bool
) -> None:
    from sglrouter.engines.channel import http2

    given: list[ChannelOptions] = []

    def make(_: object, options: ChannelOptions) -> Channel:
        given.append(options)
        return GrpcioChannel(parse_endpoint(PLAIN), options)

    process(monkeypatch, built=True, patched=patched)
    monkeypatch.setattr(http2, "Http2Channel", make)
    monkeypatch.setattr(connect_module, "GrpcioChannel", make)
    options = ChannelOptions(read_ahead=7)
    kind_of(kind, PLAIN, options)
    assert given == [options]


def test_an_extension_that_cannot_be_loaded_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sglrouter._fast.h2", None)
    assert not http2_is_built()
