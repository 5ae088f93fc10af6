#!/usr/bin/env bash
# What users install: packages.sh BUILD_DIR, or packages.sh --installed
# Makes the archive and the Debian packages, looks at what is in them and what they depend on, and builds and runs
# programs in C, Rust, Go, Python and C# against each, unpacked somewhere; with --installed, against the packages that are
# installed. What languages are not there is left out. libnanolith-cuda is looked at where BUILD_DIR has the CUDA backend.
set -euo pipefail
export LC_ALL=C  # one order everywhere
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# has TEXT PATTERN, lacks TEXT PATTERN
has() { grep -q "$2" <<<"$1" || { echo "no $2 in: $1" && return 1; }; }
lacks() { if grep "$2" <<<"$1"; then return 1; fi; }

# use PREFIX: programs built against what lies there, and run.
use() {
    local prefix=$1 expected=$root/tests/bindings/expected model=$root/examples/model
    local PKG_CONFIG_PATH LD_LIBRARY_PATH
    export PKG_CONFIG_PATH LD_LIBRARY_PATH
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name nanolith.pc)")
    LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libnanolith.so.0)")
    has "$(readelf -d "$LD_LIBRARY_PATH/libnanolith.so.0")" 'RUNPATH.*\[\$ORIGIN\]'
    cc -std=c99 examples/tokenize.c -o "$work/tokenize" $(pkg-config --cflags --libs nanolith)
    "$work/tokenize" "$model" | diff "$expected/tokenize.txt" -
    cc -std=c99 examples/chat_messages.c -o "$work/messages" $(pkg-config --cflags --libs nanolith)
    "$work/messages" "$model" 2>/dev/null | diff "$expected/messages.txt" -
    if command -v cargo >/dev/null; then
        (cd bindings/rust && CARGO_TARGET_DIR=$work/rust cargo build -q --offline --example chat)
        "$work/rust/debug/examples/chat" "$model" | diff "$expected/chat.txt" -
    fi
    if command -v go >/dev/null; then
        # By the flag Go's cache notices that the library is somewhere else.
        (cd bindings/go && CGO_LDFLAGS=-Wl,-rpath-link,$LD_LIBRARY_PATH GOPROXY=off go build -o "$work/chat" ./examples/chat)
        "$work/chat" "$model" | diff "$expected/chat.txt" -
    fi
    if command -v python3 >/dev/null; then
        PYTHONPATH=bindings/python python3 bindings/python/examples/chat.py "$model" | diff "$expected/chat.txt" -
    fi
    if command -v mcs >/dev/null; then
        mcs -out:"$work/Chat.exe" bindings/csharp/Nanolith/*.cs bindings/csharp/examples/Chat.cs
        mono "$work/Chat.exe" "$model" | diff "$expected/chat.txt" -
    fi
}

# use_static PREFIX: a program with the library in it, which runs where the shared one is not; and one linked to the shared
# library with all that the static one would need.
use_static() {
    local PKG_CONFIG_PATH flags program
    PKG_CONFIG_PATH=$(dirname "$(find "$1" -name nanolith.pc)")
    export PKG_CONFIG_PATH
    flags=$(pkg-config --static --cflags --libs nanolith)
    has "$flags" ' -lnanolith -lsentencepiece '
    cc -std=c99 examples/chat_messages.c -o "$work/shared" $flags
    has "$(readelf -d "$work/shared")" 'NEEDED.*libnanolith.so.0'
    cc -std=c99 examples/chat_messages.c -o "$work/static" ${flags/-lnanolith/-l:libnanolith.a}
    lacks "$(readelf -d "$work/static")" 'NEEDED.*nanolith'
    # It must not offer the name that Netlink's library has too.
    lacks "$(nm --defined-only "$work/static")" ' nl_cache_free$'
    env -u LD_LIBRARY_PATH "$work/static" examples/model 2>/dev/null | diff tests/bindings/expected/messages.txt -
    LD_LIBRARY_PATH=$(dirname "$(find "$1" -name libnanolith.so.0)") "$work/shared" examples/model 2>/dev/null |
        diff tests/bindings/expected/messages.txt -
}

# without_cublas PREFIX: with the CUDA backend and without NVIDIA's library, a GPU is refused with the reason, and the CPU
# works. A backend that asks for a library of another name stands for a machine that doesn't have it.
without_cublas() {
    local folder=$work/without_cublas said
    mkdir "$folder"
    cp "$(dirname "$(find "$1" -name libnanolith_cuda.so)")"/libnanolith*.so* "$folder"
    sed -i 's/libcublasLt\.so\./libcublasLt.no./g' "$folder/libnanolith_cuda.so"
    cc -std=c99 -Iinclude -DNL_EXAMPLE_MODEL='"."' examples/chat_chunked.c -o "$folder/chat" "-L$folder" -lnanolith \
        "-Wl,-rpath,$folder"
    said=$(LD_LIBRARY_PATH=$folder "$folder/chat" --model examples/model --device cuda 2>&1) && return 1
    has "$said" 'libcublasLt\.no\.[0-9]*: cannot open shared object file'
    has "$said" NL_ERROR_NOT_FOUND
    has "$(LD_LIBRARY_PATH=$folder "$folder/chat" --model examples/model --device auto)" Troton
}

if [ "$1" = --installed ]; then
    echo "The packages that are installed"
    use /usr
    use_static /usr
    if [ -e "$(dirname "$(find /usr/lib -name libnanolith.so.0)")/libnanolith_cuda.so" ]; then without_cublas /usr; fi
    exit
fi

build=$(realpath "$1")
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
trap 'rm -rf "$work"; cmake "-DCMAKE_INSTALL_PREFIX=$prefix" "$build" >/dev/null' EXIT
cmake -DCMAKE_INSTALL_PREFIX=/usr "$build" >/dev/null
(cd "$build" && rm -rf packages && cpack >"$work/cpack.log" 2>&1) || { cat "$work/cpack.log" && exit 1; }

# deb PACKAGE: its file.
deb() { ls "$build"/packages/"$1"_*.deb; }
# contents PACKAGE: its files, without the folder of the architecture.
contents() { dpkg-deb -c "$(deb "$1")" | awk '$1 !~ /^d/ {print $6}' | sed 's#/lib/[^/]*-linux-gnu/#/lib/#' | sort; }
field() { dpkg-deb -f "$(deb "$1")" "$2"; }

echo "Contents and dependencies of the Debian packages"
version=$(dpkg-deb -f "$(deb libnanolith0)" Version)
diff <(contents libnanolith0) - <<END
./usr/lib/libnanolith.so.0
./usr/lib/libnanolith.so.$version
./usr/share/doc/libnanolith0/copyright
END
diff <(contents libnanolith-dev | grep -v '/cmake/nanolith/nanolith-targets-.*\.cmake$') <(grep . <<END
./usr/include/nanolith/nanolith.h
$([ -e include/nanolith/nanolith_ops.h ] && echo ./usr/include/nanolith/nanolith_ops.h)
./usr/lib/cmake/nanolith/nanolith-config-version.cmake
./usr/lib/cmake/nanolith/nanolith-config.cmake
./usr/lib/cmake/nanolith/nanolith-targets.cmake
./usr/lib/libnanolith.a
./usr/lib/libnanolith.so
./usr/lib/pkgconfig/nanolith.pc
./usr/share/doc/libnanolith-dev/copyright
END
)
# packages_of FILE: Debian's names of the libraries that it needs, from their sonames; those of libc6 once.
packages_of() {
    readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^libm\.\|^ld-linux\|^libcublasLt' |
        sed 's/_/-/g; s/\([0-9]\)\.so\./\1-/; s/\.so\.//'
}
packages_of "$build/lib/libnanolith.so" | grep -q '^libsentencepiece0$'
for package in $(packages_of "$build/lib/libnanolith.so"); do has "$(field libnanolith0 Depends)" "$package"; done
[ "$(field libnanolith-dev Depends)" = "libnanolith0 (= $version)" ]
# Since CMake 4 ldconfig is run by a trigger, before by a script.
has "$(dpkg-deb -e "$(deb libnanolith0)" "$work/control" && cat "$work"/control/{postinst,triggers} 2>/dev/null)" ldconfig
has "$(cat "$work/control/shlibs")" '^libnanolith 0 libnanolith0'
if [ -e "$build/lib/libnanolith_cuda.so" ]; then
    diff <(contents libnanolith-cuda) - <<END
./usr/lib/libnanolith_cuda.so
./usr/share/doc/libnanolith-cuda/copyright
END
    # The packages of its own version and of Debian, with versions, must be there; NVIDIA's need not be known to apt.
    cuda_depends=$(field libnanolith-cuda Depends)
    has "$cuda_depends" "^libnanolith0 (= $version), "
    for package in $(packages_of "$build/lib/libnanolith_cuda.so"); do has "$cuda_depends" "$package (>= [0-9.]*)"; done
    lacks "$cuda_depends" 'cublas\|cuda'
    cublas=$(readelf -d "$build/lib/libnanolith_cuda.so" | sed -n 's/.*NEEDED.*\[\(libcublasLt.so.[0-9]*\)\].*/\1/p')
    has "$(field libnanolith-cuda Recommends)" "^libcublas-${cublas##*.}-[0-9]* |"
fi

echo "The Debian packages in a root of their own"
for package in "$build"/packages/*.deb; do dpkg-deb -x "$package" "$work/root"; done
use "$work/root"
use_static "$work/root"
if [ -e "$build/lib/libnanolith_cuda.so" ]; then without_cublas "$work/root"; fi
echo "The archive, moved"
mkdir "$work/archive"
tar xzf "$build"/packages/nanolith-*.tar.gz -C "$work/archive"
mv "$work"/archive/nanolith-* "$work/moved"
use "$work/moved"
