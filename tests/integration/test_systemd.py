"""The systemd unit and the files beside it: valid, and in step with the settings."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from sglrouter.config import Settings
from sglrouter.server.siblings import Siblings
from sglrouter.setting_sources import CONFIG_VARIABLE, load_settings
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "systemd"


@pytest.fixture
def unit() -> ConfigParser:
    parser = ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # names keep their case
    parser.read_string((FOLDER / "sglrouter.service").read_text())
    return parser


@pytest.fixture
def example() -> dict[str, str]:
    """All settings of the environment file, those commented out as well."""
    text = (FOLDER / "sglrouter.env").read_text()
    return dict(re.findall(r"^#?(SGLROUTER_\w+)=(.*)$", text, re.MULTILINE))


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = (FOLDER / "sglrouter.service").read_text()
    # The path of the installation; nothing need be installed for this test.
    text, count = re.subn(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text)
    assert count == 1
    copy = tmp_path / "sglrouter.service"
    copy.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    # verify reads the units that ours refers to as well: only what it says of ours counts.
    assert "sglrouter" not in done.stdout + done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_systemd_accepts_the_user() -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("systemd-sysusers is not installed")
    done = subprocess.run(
        ["systemd-sysusers", "--dry-run", FOLDER / "sglrouter.sysusers.conf"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_time_limits_leave_room_for_ours(unit: ConfigParser) -> None:
    service, settings = unit["Service"], Settings()
    assert int(service["TimeoutStopSec"]) > settings.graceful_timeout
    assert int(service["TimeoutStartSec"]) > settings.engine_start_timeout


def test_a_worker_may_open_all_its_connections(unit: ConfigParser) -> None:
    assert int(unit["Service"]["LimitNOFILE"]) > 2 * Settings().worker_connections


def test_the_workers_meeting_place_goes_with_the_service(
    unit: ConfigParser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unit["Service"]["RuntimeDirectory"] == "sglrouter"
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert Siblings.make_folder().parent == tmp_path


def test_the_service_has_a_bound_of_memory(unit: ConfigParser) -> None:
    assert unit["Service"]["MemoryMax"] == "50%"


def test_every_line_of_the_environment_file_is_a_setting(example: dict[str, str]) -> None:
    del example[CONFIG_VARIABLE]
    assert example
    for variable, value in example.items():
        load_settings({variable: value})
        assert variable.removeprefix("SGLROUTER_").lower() in Settings.__struct_fields__


def test_the_environment_file_shows_the_defaults(example: dict[str, str]) -> None:
    defaults = Settings()
    for variable in ("HOST", "PORT", "WORKERS", "GRACEFUL_TIMEOUT", "ENGINE_START_TIMEOUT"):
        shown = load_settings({f"SGLROUTER_{variable}": example[f"SGLROUTER_{variable}"]})
        assert shown == defaults
