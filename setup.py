"""The compiled extensions; everything else about the package is in pyproject.toml.

SGLROUTER_DEBUG=1 builds without optimisation, with line tracing and an annotated
HTML page beside each .pyx.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("SGLROUTER_DEBUG") == "1"

extensions = [
    Extension(
        f"sglrouter._fast.{source.stem}",
        [source.as_posix()],
        extra_compile_args=["-O0", "-g"] if DEBUG else ["-O2", "-Wall", "-Wno-unused-function"],
        define_macros=[("CYTHON_TRACE", "1")] if DEBUG else [],
    )
    for source in sorted(Path("sglrouter/_fast").glob("*.pyx"))
]

setup(
    ext_modules=cythonize(
        extensions,
        annotate=DEBUG,
        compiler_directives={
            "language_level": 3,
            "embedsignature": True,
            "linetrace": DEBUG,
        },
    )
)
