#!/usr/bin/env bash
# From a clean machine to answers: installs what the build needs, builds, and runs examples/chat_chunked on the model
# in examples/model; or serves that model over HTTP, with a page to chat.
#
#   examples/quickstart.sh [--no-install] [options of chat_chunked]
#   examples/quickstart.sh --serve [--no-install] [options of nanolith-server]
#
#   --no-install   name missing packages instead of installing them
#   --serve        end with a URL for a browser and for clients of OpenAI's interface; Ctrl-C ends the server. With
#                  --model PATH it serves another model
#   --model PATH   another model: a folder or a GGUF file. Where it has no demo.txt beside it and none is named, the
#                  messages of chat_messages are answered, in the model's own chat format
#   --format NAME  in another chat format: "gemma", for example
#   Other options go to chat_chunked, for example --chat, --device cpu; --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh

install=yes
serve=no
model=
demo=no
format=()
options=()
while [ $# -gt 0 ]; do
    case $1 in
        --no-install) install=no ;;
        --serve) serve=yes ;;
        --format) format=("${2:?--format needs a name}") && shift ;;
        *)
            [ "$1" != --model ] || model=${2:-}
            [ "$1" != --demo ] || demo=yes
            options+=("$1")
            ;;
    esac
    shift
done

# The shipped model's own documents and system prompt, and how it wants them; not for another model.
serve() {
    local server=(build/release/bin/nanolith-server) folder=build/release/documents number=1 line
    if [[ " ${options[*]-} " != *" --model"[\ =]* ]]; then
        mkdir -p $folder
        while IFS= read -r line; do
            echo "$line" >"$folder/record-$((number++)).txt"
        done < <(sed -n 's/^document: <|doc|> //p' examples/model/demo.txt)
        server+=(--model examples/model --model-name records --documents $folder --document-role document
            --chat-template examples/server/records.jinja
            --page-prompt "$(sed -n 's/^system: <|system|> //p' examples/model/demo.txt)")
    fi
    exec "${server[@]}" ${options[@]+"${options[@]}"}
}

need_build_tools
if [ $serve = yes ]; then need_server_tools; fi
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
if [ $serve = yes ]; then serve; fi
if [ -n "$model" ] && [ $demo = no ] && [ ! -e "$model/demo.txt" ]; then
    exec build/release/bin/chat_messages "$model" ${format[@]+"${format[@]}"}
fi
exec build/release/bin/chat_chunked ${options[@]+"${options[@]}"}
