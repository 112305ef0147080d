"""The model's files from an engine: fetched, checked, unpacked within bounds, cached."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import msgspec
import pytest

from sglrouter._proto import common
from sglrouter.config import Settings
from sglrouter.endpoint import Endpoint, parse_endpoint
from sglrouter.engines import tokenizer_fetch
from sglrouter.engines.tokenizer_fetch import fetch_tokenizer, unpack
from sglrouter.errors import ConfigError
from sglrouter.sim import SimOptions, SimulatedEngine
from tests.processes import free_port


def archive(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in files.items():
            zipped.writestr(name, data)
    return out.getvalue()


def endpoints(*addresses: str) -> list[Endpoint]:
    return [parse_endpoint(address) for address in addresses]


def test_the_files_are_the_engines(
    engine: SimulatedEngine, tiny_model: Path, tmp_path: Path
) -> None:
    folder = fetch_tokenizer(endpoints(engine.address), tmp_path, 5.0)
    for name in ("tokenizer.json", "config.json", "generation_config.json", "chat_template.jinja"):
        assert (folder / name).read_bytes() == (tiny_model / name).read_bytes()
    again = fetch_tokenizer(endpoints(engine.address), tmp_path, 5.0)
    assert again == folder
    assert [path for path in folder.parent.iterdir() if path != folder] == []


def test_the_next_engine_is_asked_when_one_is_down(engine: SimulatedEngine, tmp_path: Path) -> None:
    addresses = endpoints(f"127.0.0.1:{free_port()}", engine.address)
    assert (fetch_tokenizer(addresses, tmp_path, 5.0) / "tokenizer.json").is_file()


def test_an_engine_that_is_down_is_named(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ConfigError, match=f"start the engine: grpc://{address}: UNAVAILABLE"):
        fetch_tokenizer(endpoints(address), tmp_path, 0.0)


def test_an_engine_that_comes_up_is_waited_for(
    engine: SimulatedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_fetch, "_PAUSE", 0.05)
    late = SimulatedEngine(SimOptions(port=free_port()))
    with ThreadPoolExecutor(1) as pool:
        fetched = pool.submit(fetch_tokenizer, endpoints(f"127.0.0.1:{late.port}"), tmp_path, 20.0)
        late.start()
        try:
            assert (fetched.result(20) / "tokenizer.json").is_file()
        finally:
            late.stop()


def test_an_engine_that_cannot_send_files_says_so_at_once(tmp_path: Path) -> None:
    with (
        SimulatedEngine(SimOptions(dialect="0.5.9")) as old,
        pytest.raises(ConfigError, match=r"set it to a folder, no engine sends one.*UNIMPLEMENTED"),
    ):
        fetch_tokenizer(endpoints(old.address), tmp_path, 60.0)


def test_a_wrong_digest_is_refused(tmp_path: Path) -> None:
    def send(_request: bytes, _context: object) -> Iterator[bytes]:
        chunk = common.GetTokenizerChunk(data=archive(a=b"a"), sha256="0" * 64)
        yield chunk.SerializeToString()

    handlers = grpc.method_handlers_generic_handler(
        "sglang.grpc.scheduler.SglangScheduler",
        {"GetTokenizer": grpc.unary_stream_rpc_method_handler(send)},
    )
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(ConfigError, match="does not match its digest"):
            fetch_tokenizer(endpoints(f"127.0.0.1:{port}"), tmp_path, 5.0)
    finally:
        server.stop(0).wait()
    assert not list(tmp_path.rglob("a"))


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil", "a\\..\\evil"])
def test_a_path_outside_is_refused(name: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(ConfigError, match="holds the path"):
        unpack(archive(**{name: b"x"}), cache)
    assert not list(tmp_path.rglob("evil"))
    assert not list((cache / "tokenizers").iterdir())


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_fetch, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(ConfigError, match="too large unpacked"):
        unpack(archive(zeros=bytes(2_000_000)), tmp_path)


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    files = {f"file{i}": b"" for i in range(tokenizer_fetch.MAX_FILES + 1)}
    with pytest.raises(ConfigError, match="more than 64 files"):
        unpack(archive(**files), tmp_path)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be unpacked"):
        unpack(b"not a zip", tmp_path)


def test_the_module_prints_the_folder(engine: SimulatedEngine, tmp_path: Path) -> None:
    settings = Settings(engine=[f"grpc://{engine.address}"], cache_dir=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "sglrouter.engines.tokenizer_fetch"],
        input=msgspec.json.encode(settings),
        capture_output=True,
        check=True,
    )
    assert (Path(done.stdout.decode().strip()) / "tokenizer.json").is_file()
