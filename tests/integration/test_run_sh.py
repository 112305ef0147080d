"""What run.sh says on a machine that lacks things, to a user who may install nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Machine:
    """A folder of commands that stands for a machine: nothing else is on its PATH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("bash", "dirname", "tr", "sed"):
            self.has(name, shutil.which(name) or "")
        self.says("id", "echo 1000")

    def has(self, name: str, path: str) -> None:
        """The machine has this command."""
        (self._folder / name).symlink_to(path)

    def says(self, name: str, script: str) -> None:
        """The machine has a command of that name, which does this."""
        path = self._folder / name
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs run.sh on it."""
        environ = {key: value for key, value in os.environ.items() if key not in ("CC", "PORT")}
        return subprocess.run(
            [str(self._folder / "bash"), str(ROOT / "run.sh"), *arguments],
            env={**environ, "PATH": str(self._folder)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_bare_machine_is_told_all_at_once(machine: Machine) -> None:
    done = machine.run("--packages")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    needed = "python3 python3-venv gcc python3-dev"
    assert line.startswith(f"sglrouter needs {needed}. As root: apt-get install {needed} ")
    for package in ("pkg-config", "libnghttp2-dev", "curl", "nodejs", "npm"):
        assert package in line.split()


def test_what_can_be_missed_is_told_and_missed(machine: Machine) -> None:
    machine.has("python3", sys.executable)
    machine.says("cc", "exit 0")
    done = machine.run("--packages")
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("Going on without pkg-config libnghttp2-dev ")
    assert "apt-get install pkg-config libnghttp2-dev " in line


def test_an_old_python_is_told(machine: Machine) -> None:
    machine.says(
        "python3", 'case "$*" in *version_info*) exit 1;; --version) echo Python 3.9.2;; esac'
    )
    # Nobody has to install anything first to learn it.
    done = machine.run("--packages")
    assert done.returncode == 1
    assert done.stderr == "sglrouter needs Python 3.11 or newer; python3 is Python 3.9.2\n"


def test_root_installs_what_is_missing_in_one_go(machine: Machine, tmp_path: Path) -> None:
    machine.says("id", "echo 0")
    machine.has("python3", sys.executable)
    machine.says("apt-get", f'echo "$*" >>{tmp_path}/calls')
    done = machine.run("--packages")
    assert done.returncode == 0, done.stderr
    update, install = (tmp_path / "calls").read_text().splitlines()
    assert update.startswith("update")
    assert {"gcc", "libnghttp2-dev", "npm"} < set(install.split())
    assert done.stderr.startswith("Installing gcc ")


def test_help_says_what_it_takes(machine: Machine) -> None:
    done = machine.run("--help")
    assert done.returncode == 0
    assert "PORT=N ./run.sh" in done.stdout
