#!/usr/bin/env bash
# Tests nanolith-server with real clients, on the CPU. The last line is "N passed, N failed, N skipped"; the exit status
# is 0 only when something passed and nothing failed.
#
#   tests/server/run.sh [--no-install] BUILD_DIR
#
# The packages openai, langchain-openai and prometheus-client are installed from PyPI into build/server; without them what needs them is
# skipped.
set -uo pipefail
cd "$(dirname "$0")/../.."
. scripts/setup.sh

install=yes
[ "${1:-}" = --no-install ] && install=no && shift
build=$PWD/${1:-build/dev}
out=$PWD/build/server
mkdir -p "$out"
export NANOLITH_SERVER=$build/bin/nanolith-server NANOLITH_CHAIN_MODEL=$out/chain
export CUDA_VISIBLE_DEVICES=-1 # the CUDA runtime takes this for a machine without a GPU

if [ ! -x "$NANOLITH_SERVER" ]; then
    echo "skipped nanolith-server was not built: libcpp-httplib-dev or libcli11-dev is not there"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
need_command chromium chromium
install_missing $install || echo "Going on without chromium"
python=$out/venv/bin/python
if ! [ -x "$python" ] || ! "$python" -c 'import langchain_openai, openai, prometheus_client' 2>/dev/null; then
    python=python3
    if [ $install = yes ] && python3 -m venv "$out/venv" >"$out/venv.log" 2>&1 &&
        "$out/venv/bin/pip" install -q --disable-pip-version-check 'openai>=1.50' langchain-openai prometheus-client >>"$out/venv.log" 2>&1; then
        python=$out/venv/bin/python
    fi
fi
python3 tests/server/make_model.py "$NANOLITH_CHAIN_MODEL" || exit 1
cd tests/server
exec "$python" -B -c 'import harness; harness.main(["http_tests", "openai_tests", "langchain_tests", "vector_tests", "page_tests"])'
