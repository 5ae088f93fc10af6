# Sourced by examples/quickstart.sh and tests/run.sh: finds what the build needs, and installs what is missing
# through apt (Debian 12, Ubuntu 24.04).
#
#   need_build_tools, need_server_tools
#   need_command NAME PACKAGE, need_header HEADER PACKAGE, need_library PKG_CONFIG_NAME PACKAGE
#   install_missing YES_OR_NO     installs, or refuses with the list of packages
#   use_build_tools               exports ninja, ccache and nvcc to CMake where they are found
#   gpu_architecture              prints the present GPU's architecture as CMake names it, or fails
#   cuda_options                  prints CMake's options for this machine: the CUDA backend where it has nvcc and a GPU

missing_packages=()

need_command() { command -v "$1" >/dev/null || missing_packages+=("$2"); }
need_library() { pkg-config --exists "$1" 2>/dev/null || missing_packages+=("$2"); }
need_header() {
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | c++ -std=c++17 -x c++ -E - >/dev/null 2>&1 ||
        missing_packages+=("$2")
}

need_build_tools() {
    need_command cmake cmake
    need_command c++ g++
    command -v make >/dev/null || need_command ninja ninja-build
    need_header sentencepiece_processor.h libsentencepiece-dev
    need_header pcre2.h libpcre2-dev
    need_header utf8proc.h libutf8proc-dev
    need_header nlohmann/json.hpp nlohmann-json3-dev
    need_header dnnl.hpp libdnnl-dev
    need_header nettle/sha2.h nettle-dev
    need_header xxhash.h libxxhash-dev
}

need_server_tools() {
    need_command pkg-config pkg-config
    need_library cpp-httplib libcpp-httplib-dev
    need_header CLI/CLI.hpp libcli11-dev
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

install_missing() {
    [ ${#missing_packages[@]} = 0 ] && return 0
    echo "Missing packages: ${missing_packages[*]}"
    if [ "$1" = no ]; then
        echo "Not installed because of --no-install. Install them, then run this again." >&2
        return 1
    fi
    if ! command -v apt-get >/dev/null || { [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; }; then
        echo "They can't be installed here: that takes apt-get, and root or sudo." >&2
        return 1
    fi
    # Of scripts that run side by side one installs at a time.
    (flock 9 && apt_install "${missing_packages[@]}") 9>"${TMPDIR:-/tmp}/nanolith-install-$(id -u).lock" || return 1
    missing_packages=()
}

apt_install() {  # packages...
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
    if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
        echo "Running apt-get update"
        as_root "${apt[@]}" update || return 1
    fi
    echo "Running apt-get install"
    # Lists that are out of date name files that are gone: a second try with new ones.
    as_root "${apt[@]}" install --no-install-recommends "$@" ||
        { as_root "${apt[@]}" update && as_root "${apt[@]}" install --no-install-recommends "$@"; }
}

use_build_tools() {
    if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}; fi
    if command -v ccache >/dev/null; then
        export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    fi
    if [ -z "${CUDACXX:-}" ] && ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then
        export CUDACXX=/usr/local/cuda/bin/nvcc
    fi
}

have_nvcc() { [ -n "${CUDACXX:-}" ] || command -v nvcc >/dev/null; }

gpu_architecture() {
    local capability
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1) || return 1
    case $capability in
        9.0) echo 90a ;;
        [0-9]*.[0-9]) echo "${capability/./}" ;;
        *) return 1 ;;
    esac
}

cuda_options() {
    local architecture
    if have_nvcc && architecture=$(gpu_architecture); then
        echo "-DNL_CUDA=ON -DNL_CUDA_ARCHITECTURES=$architecture"
    else
        echo -DNL_CUDA=OFF
    fi
}
