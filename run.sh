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

venv=.venv
stamp=$venv/.installed-run
if [ ! -e "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
  if ! python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "run.sh needs Python 3.11 or newer with venv (Debian: apt-get install python3-venv)" >&2
    exit 1
  fi
  if ! command -v "${CC:-cc}" >/dev/null; then
    echo "run.sh needs a C compiler (Debian: apt-get install gcc python3-dev)" >&2
    exit 1
  fi
  echo "Setting up $venv (a minute or two) ..." >&2
  [ -x $venv/bin/python ] || python3 -m venv $venv
  $venv/bin/python -m pip install --quiet --editable .
  touch "$stamp"
fi

if [ $# = 0 ]; then
  exec $venv/bin/sglrouter demo --port "${PORT:-8080}"
fi
exec $venv/bin/sglrouter serve --tokenizer "$1" ${2:+--engine "$2"} ${3:+--port "$3"}
