#!/usr/bin/env bash
# What users install: packages.sh BUILD_DIR
# Makes the archive and the Debian packages, looks at what is in them and what they depend on, and builds and runs
# programs in C, Rust and Go against each, unpacked somewhere; and one in C#, where run.sh has built it.
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d)
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
trap 'rm -rf "$work"; cmake "-DCMAKE_INSTALL_PREFIX=$prefix" "$build" >/dev/null' EXIT

cmake -DCMAKE_INSTALL_PREFIX=/usr "$build" >/dev/null
(cd "$build" && rm -rf packages && cpack >"$work/cpack.log" 2>&1) || { cat "$work/cpack.log" && exit 1; }

# deb PACKAGE: its file.
deb() { ls "$build"/packages/"$1"_*.deb; }
# contents PACKAGE: its files, without the folder of the architecture.
contents() { dpkg-deb -c "$(deb "$1")" | awk '$1 !~ /^d/ {print $6}' | sed 's#/lib/[^/]*-linux-gnu/#/lib/#' | sort; }
depends() { dpkg-deb -f "$(deb "$1")" Depends; }

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
./usr/lib/libnanolith.so
./usr/lib/pkgconfig/nanolith.pc
./usr/share/doc/libnanolith-dev/copyright
END
)
for library in libc6 libstdc++6 libsentencepiece0 libdnnl; do depends libnanolith0 | grep -q "$library"; done
[ "$(depends libnanolith-dev)" = "libnanolith0 (= $version)" ]
dpkg-deb --ctrl-tarfile "$(deb libnanolith0)" | tar -xO ./postinst | grep -q ldconfig
dpkg-deb --ctrl-tarfile "$(deb libnanolith0)" | tar -xO ./shlibs | grep -q '^libnanolith 0 libnanolith0'
if [ -e "$build/lib/libnanolith_cuda.so" ]; then
    contents libnanolith-cuda | grep -q '^./usr/lib/libnanolith_cuda.so$'
    depends libnanolith-cuda | grep -q "libnanolith0 (= $version)"
fi

# use PREFIX: programs built against what lies there, and run.
use() {
    local prefix=$1 expected=$root/tests/bindings/expected model=$root/examples/model
    local PKG_CONFIG_PATH LD_LIBRARY_PATH
    export PKG_CONFIG_PATH LD_LIBRARY_PATH
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name nanolith.pc)")
    LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libnanolith.so.0)")
    readelf -d "$LD_LIBRARY_PATH/libnanolith.so.0" | grep -q 'RUNPATH.*\[\$ORIGIN\]'
    cc -std=c99 examples/tokenize.c -o "$work/tokenize" $(pkg-config --cflags --libs nanolith)
    "$work/tokenize" "$model" | diff "$expected/tokenize.txt" -
    (cd bindings/rust && CARGO_TARGET_DIR=$work/rust cargo build -q --offline --example chat)
    "$work/rust/debug/examples/chat" "$model" | diff "$expected/chat.txt" -
    (cd bindings/go && GOPROXY=off go build -o "$work/chat" ./examples/chat)
    "$work/chat" "$model" | diff "$expected/chat.txt" -
    if [ -e "$root/build/bindings/Chat.exe" ]; then
        mono "$root/build/bindings/Chat.exe" "$model" | diff "$expected/chat.txt" -
    fi
}

echo "The Debian packages in a root of their own"
for package in "$build"/packages/*.deb; do dpkg-deb -x "$package" "$work/root"; done
use "$work/root"
echo "The archive, moved"
mkdir "$work/archive"
tar xzf "$build"/packages/nanolith-*.tar.gz -C "$work/archive"
mv "$work"/archive/nanolith-* "$work/moved"
use "$work/moved"
