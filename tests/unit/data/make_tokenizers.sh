#!/usr/bin/env bash
# Makes the tokenizers of the unit tests with spm_train (Debian's package "sentencepiece"):
#   bpe_bytes/    BPE with byte tokens, a dummy prefix and spaces kept as they are
#   bpe_symbols/  BPE with byte tokens and user-defined symbols, no dummy prefix
#   unigram/      unigram without byte tokens, with a small normalisation table; extra spaces are removed
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk 'BEGIN {
    srand(1);
    n = split("the a lamp stone river market code opens closes at in near of Mira Tobin Anselm Größe café naïve", words, " ");
    for (line = 0; line < 400; ++line) {
        text = "";
        for (i = 0; i < 8; ++i) text = text words[1 + int(rand() * n)] " ";
        print text int(rand() * 1000) ".";
    }
}' >"$work/text.txt"

train() {  # folder, options...
    local folder=$1
    shift
    mkdir -p "$folder"
    # The file records these names, so they are relative.
    (cd "$work" && spm_train --input=text.txt --model_prefix="$folder" --hard_vocab_limit=false --num_threads=1 \
        --minloglevel=2 "$@")
    cp "$work/$folder.model" "$folder/tokenizer.model"
}

train bpe_bytes --model_type=bpe --vocab_size=360 --byte_fallback=true --normalization_rule_name=identity \
    --remove_extra_whitespaces=false
train bpe_symbols --model_type=bpe --vocab_size=340 --byte_fallback=true --normalization_rule_name=identity \
    --remove_extra_whitespaces=false --add_dummy_prefix=false --pad_id=3 \
    --user_defined_symbols='<|system|>,<|document|>,<|user|>,<|assistant|>'
# U+FB01 (fi ligature) becomes "fi", full-width letters A and B their plain ones, a no-break space a space.
printf 'FB01\t66 69\nFF21\t41\nFF22\t42\nA0\t20\n' >"$work/rules.tsv"
train unigram --model_type=unigram --vocab_size=90 --normalization_rule_tsv=rules.tsv --bos_id=-1
