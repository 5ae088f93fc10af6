#include "store/fingerprint.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <sstream>
#include <vector>

#include "base/cores.h"
#include "base/thread_pool.h"
#include "store/output_file.h"
#include "store/sha256.h"

namespace nanolith {
namespace {

constexpr size_t kBlock = size_t{64} << 20;
constexpr size_t kPiece = size_t{1} << 20;  // read at a time
constexpr int32_t kMostThreads = 16;
constexpr size_t kMostKept = size_t{1} << 20;  // bytes of the file that remembers digests

void add_float(Sha256& hash, float number) {
    hash.add(uint64_t{std::bit_cast<uint32_t>(number)});
}
void add_integer(Sha256& hash, int64_t number) {
    hash.add(static_cast<uint64_t>(number));
}

// IO where there are fewer bytes than `size`.
Result<Digest> digest_of_block(const OpenFile& file, size_t begin, size_t size) {
    std::vector<std::byte> piece(std::min(kPiece, size));
    Sha256 hash;
    for (size_t done = 0; done < size;) {
        const size_t count = std::min(piece.size(), size - done);
        NL_ASSIGN(const size_t got, file.read_at(begin + done, count, piece.data()));
        if (got < count) return fail(NL_ERROR_IO, file.path(), " ends at byte ", begin + done + got);
        hash.add(std::span(piece).first(got));
        done += got;
    }
    return hash.finish();
}

Result<Digest> digest_of_file(const OpenFile& file, ThreadPool& pool) {
    const size_t blocks = (file.size() + kBlock - 1) / kBlock;
    std::vector<Result<Digest>> digests(blocks, Result<Digest>(Digest{}));
    pool.run(static_cast<int64_t>(blocks), cost_of_bytes(static_cast<int64_t>(file.size())), [&](int64_t i, int32_t) {
        const size_t begin = static_cast<size_t>(i) * kBlock;
        try {
            digests[i] = digest_of_block(file, begin, std::min(kBlock, file.size() - begin));
        } catch (const std::bad_alloc&) {
            digests[i] = Error{NL_ERROR_OUT_OF_MEMORY, "out of memory"};
        }
    });
    Sha256 hash;
    hash.add(uint64_t{file.size()});
    for (const auto& digest : digests) {
        if (!digest.ok()) return digest.error();
        hash.add(*digest);
    }
    return hash.finish();
}

// A line of the file that remembers digests: the facts of the weights' file, without its name, and its digest.
std::string line_of(const FileFacts& facts, const std::string& digest) {
    std::ostringstream line;
    line << facts.device << ' ' << facts.inode << ' ' << facts.size << ' ' << facts.modified_ns << ' '
         << facts.changed_ns << ' ' << digest << '\n';
    return std::move(line).str();
}

std::optional<Digest> from_hex(std::string_view text) {
    Digest digest;
    if (text.size() != 2 * digest.size()) return std::nullopt;
    for (size_t i = 0; i < text.size(); ++i) {
        const size_t value = std::string_view("0123456789abcdef").find(text[i]);
        if (value == std::string_view::npos) return std::nullopt;
        std::byte& byte = digest[i / 2];
        byte = i % 2 == 0 ? static_cast<std::byte>(value << 4U) : byte | static_cast<std::byte>(value);
    }
    return digest;
}

std::optional<Digest> find_kept(const std::string& lines, const FileFacts& facts) {
    const std::string wanted = line_of(facts, "");
    const std::string begin = wanted.substr(0, wanted.size() - 1);
    for (size_t at = 0; at < lines.size();) {
        const size_t end = std::min(lines.find('\n', at), lines.size());
        const std::string_view line = std::string_view(lines).substr(at, end - at);
        if (line.starts_with(begin)) return from_hex(line.substr(begin.size()));
        at = end + 1;
    }
    return std::nullopt;
}

}  // namespace

Digest digest_of_numbers(const ModelSpec& spec, const ExecutorOptions& options, const std::string& device) {
    Sha256 hash;
    hash.add_text("nanolith numbers 1");
    hash.add_text(dtype_name(options.dtype));
    hash.add_text(dtype_name(options.page_dtype()));
    // Weights that are quantised while they are loaded give other keys and values than those of the files, which the
    // mark's digest of the files stands for.
    if (options.weights != WeightForm::source) hash.add_text(form_name(options.weights));
    for (const int64_t number :
         {options.page_size, spec.num_layers, spec.hidden_size, spec.intermediate_size, spec.num_heads,
          spec.num_kv_heads, spec.head_dim, spec.vocab_size, static_cast<int32_t>(spec.activation), spec.experts.count,
          spec.experts.top_k, spec.experts.intermediate_size, static_cast<int32_t>(spec.experts.normalized)})
        add_integer(hash, number);
    for (const float number :
         {spec.norm_epsilon, spec.norm_offset, spec.attention_scale, spec.attention_softcap, spec.embedding_scale})
        add_float(hash, number);
    for (const RopeSpec& rope : spec.ropes) {
        add_integer(hash, static_cast<int64_t>(rope.frequencies.size()));
        for (const float frequency : rope.frequencies) add_float(hash, frequency);
        add_integer(hash, static_cast<int64_t>(rope.magnitudes.size()));
        for (const float magnitude : rope.magnitudes) add_float(hash, magnitude);
    }
    for (const LayerSpec& layer : spec.layers) {
        add_integer(hash, layer.rope);
        add_integer(hash, layer.window);
    }
    hash.add_text(options.batch_invariant ? device : "");
    add_integer(hash, options.batch_invariant ? NL_VERSION_NUMBER : 0);
    return hash.finish();
}

Result<Digest> digest_of_tokenizer(const std::string& folder) {
    constexpr size_t kMostBytes = size_t{1} << 30;
    constexpr const char* kNames[] = {"added_tokens.json", "special_tokens_map.json", "tekken.json",
                                      "tokenizer.json",    "tokenizer.model",         "tokenizer_config.json"};
    Sha256 hash;
    for (const char* const name : kNames) {
        const std::string path = folder + "/" + name;
        if (!file_exists(path)) continue;
        NL_ASSIGN(const std::string bytes, read_file(path, kMostBytes));
        hash.add_text(name);
        hash.add_text(bytes);
    }
    return hash.finish();
}

Result<Digest> digest_of_weights(const Model& model, const std::string& kept) {
    if (model.weight_files.empty())
        return fail(NL_ERROR_UNSUPPORTED, "the model was not loaded from files, so that its chunks have no name");
    std::string lines;
    if (!kept.empty()) {
        auto read = read_file(kept, kMostKept);
        if (read.ok()) lines = std::move(*read);
    }
    std::unique_ptr<ThreadPool> pool;
    std::vector<FileFacts> files = model.weight_files;
    std::ranges::sort(files, {}, &FileFacts::path);
    Sha256 hash;
    std::string added;
    for (const FileFacts& facts : files) {
        NL_ASSIGN(const OpenFile file, OpenFile::open(facts.path));
        if (file.facts().inode != facts.inode || file.facts().modified_ns != facts.modified_ns ||
            file.size() != facts.size)
            return fail(NL_ERROR_IO, facts.path, " is not the file any more that was loaded");
        std::optional<Digest> digest = find_kept(lines, file.facts());
        if (!digest) {
            if (!pool) pool = ThreadPool::create(std::min(kMostThreads, available_cores()));
            NL_ASSIGN(digest, digest_of_file(file, *pool));
            NL_TRY(file.check_unchanged());
            added += line_of(file.facts(), to_hex(*digest));
        }
        hash.add(*digest);
    }
    // What cannot be kept is computed again by the next engine.
    if (!kept.empty() && !added.empty() && lines.size() + added.size() <= kMostKept)
        static_cast<void>(write_file(kept, lines + added));
    return hash.finish();
}

}  // namespace nanolith
