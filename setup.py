"""The compiled extensions; everything else about the package is in pyproject.toml.

h2 needs libnghttp2 and its headers (Debian: libnghttp2-dev). Where they are missing the
package is built without it, and runs on grpcio.

SGLROUTER_DEBUG=1 builds without optimisation, with line tracing and an annotated
HTML page beside each .pyx. SGLROUTER_SANITIZE=1 builds with AddressSanitizer.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("SGLROUTER_DEBUG") == "1"
SANITIZE = os.environ.get("SGLROUTER_SANITIZE") == "1"
NGHTTP2 = "libnghttp2"


def pkg_config(option: str) -> list[str] | None:
    """What pkg-config says of libnghttp2; None where it is not installed."""
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), option, NGHTTP2]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return shlex.split(done.stdout)


def compile_flags() -> list[str]:
    """Flags for every extension."""
    if DEBUG:
        return ["-O0", "-g"]
    flags = ["-O2", "-Wall", "-Wno-unused-function"]
    return [*flags, "-g", "-fsanitize=address,undefined"] if SANITIZE else flags


def extensions() -> list[Extension]:
    """All extensions that can be built here."""
    found = []
    for source in sorted(Path("sglrouter/_fast").glob("*.pyx")):
        flags, libraries = compile_flags(), []
        if source.stem == "h2":
            includes, linking = pkg_config("--cflags"), pkg_config("--libs")
            if includes is None or linking is None:
                sys.stderr.write(
                    f"sglrouter: {NGHTTP2} not found by pkg-config: building without the native "
                    "channel. Streaming over grpcio takes many times the CPU.\n"
                )
                continue
            # nghttp2 keeps the names that it deprecates; older versions know no others.
            flags, libraries = [*flags, *includes, "-Wno-deprecated-declarations"], linking
        found.append(
            Extension(
                f"sglrouter._fast.{source.stem}",
                [source.as_posix()],
                extra_compile_args=flags,
                extra_link_args=[
                    *libraries,
                    *(["-fsanitize=address,undefined"] if SANITIZE else []),
                ],
                define_macros=[("CYTHON_TRACE", "1")] if DEBUG else [],
            )
        )
    return found


setup(
    ext_modules=cythonize(
        extensions(),
        annotate=DEBUG,
        compiler_directives={
            "language_level": 3,
            "embedsignature": True,
            "linetrace": DEBUG,
        },
    )
)
