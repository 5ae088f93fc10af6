#!/usr/bin/env bash
# Installs the library for everybody on this machine: through apt what the build needs (Debian 12, Ubuntu 24.04), then
# the library itself, in /usr/local; with the CUDA backend where there is a GPU and nvcc.
#
#   scripts/install.sh [--no-install]      --no-install names missing packages instead of installing them
#
# For another place, build as the README says and give `cmake --install` a prefix.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

need_build_tools
need_command pkg-config pkg-config
install_missing "$([ "${1:-}" = --no-install ] && echo no || echo yes)"
use_build_tools
read -ra cuda <<<"$(cuda_options)"
cmake --preset release "${cuda[@]}"
cmake --build build/release --parallel "$(nproc)"
as_root cmake --install build/release --prefix /usr/local
as_root ldconfig
