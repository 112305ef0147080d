#!/usr/bin/env bash
# Sets up what is missing and runs the router.
#
#   ./run.sh                              a demo: simulated engine, tiny tokenizer, port 8080
#   ./run.sh TOKENIZER ENDPOINT [PORT]    your model's folder, your engine's grpc://HOST:PORT
#
# An empty TOKENIZER ("") takes the tokenizer from the engine. PORT=N ./run.sh listens on
# another port. Settings are described in docs/configuration.md and can be given as
# SGLROUTER_* variables. As root on Debian or Ubuntu it installs the packages that are missing;
# anybody else is told which they are.
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
  -h | --help)
    sed -n '2,11s/^# \{0,1\}//p' run.sh
    exit
    ;;
esac

# What is missing of the system, by the names of Debian's packages.
missing() {
  local kind=$1
  case $kind in
    needed)
      command -v python3 >/dev/null || echo python3
      python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
      command -v "${CC:-cc}" >/dev/null || echo gcc
      # Where python3 is there already, its headers may be in another place than Debian's.
      python3 - 2>/dev/null <<'PYTHON' || echo python3-dev
import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())
PYTHON
      ;;
    wanted) # without it the router runs on grpcio, at many times the CPU
      command -v pkg-config >/dev/null || echo pkg-config
      pkg-config --exists libnghttp2 2>/dev/null || echo libnghttp2-dev
      ;;
    tests) # without them some tests skip
      command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || echo nginx
      command -v curl >/dev/null || echo curl
      command -v node >/dev/null || echo nodejs
      command -v npm >/dev/null || echo npm
      ;;
  esac
}

refuse_old_python() {
  if command -v python3 >/dev/null &&
    ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "sglrouter needs Python 3.11 or newer; python3 is $(python3 --version)" >&2
    exit 1
  fi
}

# Installs what is missing of the kinds that are named, or says all of it in one line.
packages() {
  local kind needed optional=
  refuse_old_python
  needed=$(missing needed | tr '\n' ' ')
  for kind in "$@"; do optional+=$(missing "$kind" | tr '\n' ' '); done
  if [ -n "$needed$optional" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      echo "Installing $needed$optional..." >&2
      apt-get update -qq
      # shellcheck disable=SC2086 # a list of words
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $needed $optional >/dev/null
      refuse_old_python # which may have come just now
    elif [ -n "$needed" ]; then
      echo "sglrouter needs ${needed% }. As root: apt-get install $needed$optional" >&2
      exit 1
    else
      echo "Going on without ${optional% }. As root: apt-get install $optional" >&2
    fi
  fi
}

if [ "${1:-}" = --packages ]; then # for the Makefile
  packages wanted tests
  exit
fi

# Runs a command that is silent for long, with a dot every few seconds.
with_dots() {
  local dots
  (while sleep 5; do printf . >&2; done) &
  dots=$!
  "$@" || { kill $dots; return 1; }
  kill $dots
  wait $dots 2>/dev/null || true
  echo >&2
}

venv=.venv
stamp=$venv/.installed-run
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  packages wanted
  echo "Setting up $venv: downloading, then compiling (one to five minutes) ..." >&2
  [ -x $venv/bin/python ] || python3 -m venv $venv
  with_dots $venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[fast]'
  touch "$stamp"
fi

if [ $# = 0 ]; then
  exec $venv/bin/sglrouter demo --port "${PORT:-8080}"
fi
port=${3:-${PORT:-}}
exec $venv/bin/sglrouter serve --tokenizer "$1" ${2:+--engine "$2"} ${port:+--port "$port"}
