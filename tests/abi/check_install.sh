#!/usr/bin/env bash
# What users build against: check_install.sh BUILD_DIR
# Installs to a temporary prefix, moves it, and builds a C program against it with pkg-config and with find_package.
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"
export PKG_CONFIG_PATH LD_LIBRARY_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name nanolith.pc)")
LD_LIBRARY_PATH=$(dirname "$(find "$work/prefix" -name libnanolith.so)")

cat >"$work/app.c" <<'C'
#include <nanolith/nanolith.h>
#include <nanolith/nanolith_ops.h>
#include <stdio.h>
int main(void) {
    nl_engine *engine = NULL;
    nl_ops *ops = NULL;
    nl_attention_options *options = NULL;
    nl_attention_plan *plan = NULL;
    const nl_attention_capacity capacity = {.struct_size = sizeof capacity,
                                            .max_rows = 8,
                                            .max_sequences = 8,
                                            .max_segments = 32,
                                            .max_page_table = 512};
    if (nl_ops_create("cpu", 3, &ops) != NL_OK) return 1;
    if (nl_attention_options_create(&options) != NL_OK) return 1;
    if (nl_attention_options_set_heads(options, 8, 2) != NL_OK) return 1;
    if (nl_attention_options_set_head_dim(options, 64) != NL_OK) return 1;
    if (nl_attention_plan_create(ops, options, &capacity, &plan) != NL_OK) return 1;
    nl_attention_plan_free(plan);
    nl_attention_options_free(options);
    nl_ops_free(ops);
    nl_status status = nl_engine_create("/nowhere", 8, NULL, &engine);
    printf("nanolith %s: %s\n", nl_version(), nl_status_name(status));
    return status == NL_ERROR_NOT_FOUND ? 0 : 1;
}
C
echo "pkg-config $(pkg-config --modversion nanolith)"
cc -std=c99 "$work/app.c" $(pkg-config --cflags --libs nanolith) -o "$work/app"
"$work/app"
cc -std=c99 -Wall -Wextra -Wpedantic -Werror -DNL_EXAMPLE_MODEL='"."' examples/chat_chunked.c \
    $(pkg-config --cflags --libs nanolith) -o "$work/chat_chunked"
"$work/chat_chunked" --help >/dev/null
# Documents that are texts of their own are computed by one program, and another one answers its first question with them.
cc -std=c11 -Wall -Wextra -Wpedantic -Werror examples/store.c $(pkg-config --cflags --libs nanolith) -o "$work/store"
mkdir "$work/texts" "$work/texts/inside"
: >"$work/texts/empty"
sed -n 's/^document: //p' examples/model/demo.txt | {
    number=0
    while IFS= read -r text; do
        number=$((number + 1))
        printf %s "$text" >"$work/texts/$(printf %03d $number)"
    done
}
documents=$(grep -c '^document: ' examples/model/demo.txt)
"$work/store" warm examples/model "$work/kept" "$work/texts" --device cpu >"$work/warmed"
grep -q "^$documents of $documents  " "$work/warmed"
grep -q "^$documents chunks computed, $documents of them written; 0 were there already" "$work/warmed"
"$work/store" warm examples/model "$work/kept" "$work/texts" --device cpu | grep -q " $documents were there already"
[ "$(find "$work/kept" -name '*.chunk' | wc -l)" = "$documents" ]
COLUMNS=100 "$work/store" show examples/model "$work/kept" --device cpu >"$work/shown"
grep -Eq "^files +$documents +[0-9.]+ (KiB|MiB) +0 +0  \[#{43}\] 100%" "$work/shown"
"$work/store" show examples/model "$work/kept" --device cpu --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["tiers"][1]["chunks"])' | grep -qx "$documents"
if "$work/store" warm examples/model "$work/kept" "$work/texts/inside" --device cpu 2>"$work/said"; then exit 1; fi
grep -q 'has no text files' "$work/said"
chat=("$work/chat_chunked" --model examples/model --device cpu --store "$work/kept")
"${chat[@]}" >"$work/chat"
grep -q "^$documents of them came from files" "$work/chat"
"${chat[@]}" >"$work/chat"
grep -q '^All of them came from files: the first question' "$work/chat"
if grep -q ' ms  computed$' "$work/chat"; then exit 1; fi
"$work/chat_chunked" --model examples/model --device cpu --host 1000000 >"$work/chat"
if "$work/chat_chunked" --model examples/model --device cpu --host 1x 2>"$work/said" >&2; then exit 1; fi
grep -q '^--host is 1x' "$work/said"
cc -std=c99 -Wall -Wextra -Wpedantic -Werror -DNL_EXAMPLE_MODEL='"examples/model"' examples/chat_messages.c \
    $(pkg-config --cflags --libs nanolith) -o "$work/chat_messages"
"$work/chat_messages" >"$work/chat"
grep -q 'found in the store' "$work/chat"
cc -std=c99 -Wall -Wextra -Wpedantic -Werror examples/model_facts.c $(pkg-config --cflags --libs nanolith) \
    -o "$work/model_facts"
"$work/model_facts" examples/model >"$work/facts"
grep -q '^tokenizer: supported' "$work/facts"

cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES C)
find_package(nanolith 0.2 REQUIRED)
add_executable(app app.c)
target_link_libraries(app PRIVATE nanolith::nanolith)
CMAKE
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
"$work/build/app"
