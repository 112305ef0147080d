#!/usr/bin/env bash
# Sets up what is missing and runs the router.
#
#   ./run.sh                              a demo: simulated engine, tiny tokenizer, port 8080
#   ./run.sh TOKENIZER ENDPOINT [PORT]    your model's folder, your engine's grpc://HOST:PORT
#
# An empty TOKENIZER ("") takes the tokenizer from the engine. Settings are described in
# docs/configuration.md and can be given as SGLROUTER_* variables.
set -euo pipefail
cd "$(dirname "$0")"

case "${1:-}" in
  -h | --help)
    sed -n '2,9s/^# \{0,1\}//p' run.sh
    exit
    ;;
esac

# Debian's Python comes without venv and headers; install what is missing where we may.
need() {
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing $* ..." >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null
  else
    echo "sglrouter needs $* (Debian: apt-get install $*)" >&2
    exit 1
  fi
}

packages() {
  command -v python3 >/dev/null || need python3 python3-venv python3-dev
  python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv python3-dev
  command -v "${CC:-cc}" >/dev/null || need gcc python3-dev
  if ! pkg-config --exists libnghttp2 2>/dev/null; then
    # Without it the router runs on grpcio, at many times the CPU.
    (need libnghttp2-dev pkg-config) || echo "Going on without the native channel." >&2
  fi
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "sglrouter needs Python 3.11 or newer; python3 is $(python3 --version)" >&2
    exit 1
  fi
}

if [ "${1:-}" = --packages ]; then # for the Makefile
  packages
  exit
fi

venv=.venv
stamp=$venv/.installed-run
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  packages
  echo "Setting up $venv (a minute or two) ..." >&2
  [ -x $venv/bin/python ] || python3 -m venv $venv
  $venv/bin/python -m pip install --quiet --editable .
  touch "$stamp"
fi

if [ $# = 0 ]; then
  exec $venv/bin/sglrouter demo --port "${PORT:-8080}"
fi
exec $venv/bin/sglrouter serve --tokenizer "$1" ${2:+--engine "$2"} ${3:+--port "$3"}
