#!/usr/bin/env bash
# From a clean machine to answers: installs what the build needs, builds, and runs examples/chat_chunked on the model
# in examples/model.
#
#   examples/quickstart.sh [--no-install] [options of chat_chunked]
#
#   --no-install   name missing packages instead of installing them
#   Other options go to chat_chunked, for example --chat, --model DIR, --device cpu; --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

install=yes
options=()
for option in "$@"; do
    if [ "$option" = --no-install ]; then install=no; else options+=("$option"); fi
done

need_build_tools
install_missing $install
use_build_tools

read -ra cuda <<<"$(cuda_options)"
echo "Building in build/release (${cuda[*]})"
log=build/release/quickstart.log
mkdir -p build/release
# Ten sources are compiled together, in half of the time.
if ! { cmake --preset release "${cuda[@]}" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 &&
    cmake --build build/release --parallel "$(nproc)"; } >$log 2>&1; then
    tail -n 40 $log >&2
    echo "The build failed; all of its output is in $log." >&2
    exit 1
fi
exec build/release/bin/chat_chunked ${options[@]+"${options[@]}"}
