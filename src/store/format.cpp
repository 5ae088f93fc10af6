#include "store/format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <type_traits>
#include <unordered_map>

#include "backend/page_size.h"
#include "base/checksum.h"
#include "store/blend_unit.h"

namespace nanolith {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr char kMagic[8] = {'N', 'L', 'C', 'H', 'U', 'N', 'K', '\n'};
constexpr size_t kMostDescription = size_t{256} << 20;  // bytes
constexpr int64_t kMostPages = int64_t{1} << 31;
// Of a list among the sampling options, and of a text in it: no more can be set.
constexpr size_t kMostListed = 1024;
constexpr size_t kMostBreakerBytes = 40;

class Output {
  public:
    template <typename T>
    void number(T value) {
        bytes(std::as_bytes(std::span(&value, 1)));
    }
    void bytes(std::span<const std::byte> more) { data_.insert(data_.end(), more.begin(), more.end()); }
    template <typename T>
    void numbers(const std::vector<T>& values) {
        number(static_cast<uint32_t>(values.size()));
        bytes(std::as_bytes(std::span(values)));
    }
    [[nodiscard]] size_t size() const { return data_.size(); }
    std::vector<std::byte> take() { return std::move(data_); }

  private:
    std::vector<std::byte> data_;
};

// Reads from bytes that may end anywhere: what is beyond their end is zero, and ok() false from then on.
class Input {
  public:
    explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    T number() {
        T value{};
        copy(std::as_writable_bytes(std::span(&value, 1)));
        return value;
    }
    template <typename T>
    std::vector<T> numbers() {
        const auto count = number<uint32_t>();
        std::vector<T> values;
        if (count > bytes_.size() / sizeof(T)) {
            ok_ = false;
            return values;
        }
        values.resize(count);
        copy(std::as_writable_bytes(std::span(values)));
        return values;
    }
    void copy(std::span<std::byte> to) {
        ok_ = ok_ && to.size() <= bytes_.size();
        if (!ok_ || to.empty()) return;  // memcpy must not see the null pointer of an empty list
        std::memcpy(to.data(), bytes_.data(), to.size());
        bytes_ = bytes_.subspan(to.size());
    }
    [[nodiscard]] bool ok() const { return ok_; }
    [[nodiscard]] bool at_end() const { return ok_ && bytes_.empty(); }

  private:
    std::span<const std::byte> bytes_;
    bool ok_ = true;
};

// The identities that chunks need, each after those before it, and their places.
class IdentityTable {
  public:
    void add(const ChunkIdentity& wanted) {
        std::vector<const ChunkIdentity*> waiting{&wanted};
        while (!waiting.empty()) {
            const ChunkIdentity& next = *waiting.back();
            const size_t size = waiting.size();
            if (!places_.contains(&next))
                for (const auto& before : next.before)
                    if (!places_.contains(before.get())) waiting.push_back(before.get());
            if (waiting.size() > size) continue;
            if (places_.emplace(&next, static_cast<uint32_t>(list_.size())).second) list_.push_back(&next);
            waiting.pop_back();
        }
    }
    [[nodiscard]] const std::vector<const ChunkIdentity*>& list() const { return list_; }
    [[nodiscard]] uint32_t place(const ChunkIdentity& identity) const { return places_.at(&identity); }

  private:
    std::vector<const ChunkIdentity*> list_;
    std::unordered_map<const ChunkIdentity*, uint32_t> places_;
};

// Calls visit(member) for each sampling option that is a number and was added after the first five, in the file's
// order.
template <typename Options, typename Visit>
void for_further_numbers(Options& options, const Visit& visit) {
    visit(options.repetition_penalty);
    visit(options.frequency_penalty);
    visit(options.presence_penalty);
    visit(options.penalty_window);
    visit(options.dry_multiplier);
    visit(options.dry_base);
    visit(options.dry_allowed_length);
    visit(options.dry_window);
    visit(options.xtc_probability);
    visit(options.xtc_threshold);
    visit(options.typical_p);
    visit(options.mirostat_tau);
    visit(options.mirostat_eta);
}

// Whether any sampling option but the first five (temperature, top-k, top-p, min-p, seed) differs from its default.
// Only then a file has them.
bool has_further(const SamplingOptions& options) {
    SamplingOptions plain;
    plain.temperature = options.temperature;
    plain.top_k = options.top_k;
    plain.top_p = options.top_p;
    plain.min_p = options.min_p;
    plain.seed = options.seed;
    return options != plain;
}

void put_further(Output& output, const SamplingOptions& options) {
    for_further_numbers(options, [&](const auto& member) { output.number(member); });
    output.number(static_cast<uint32_t>(options.biases.size()));
    for (const LogitBias& bias : options.biases) {
        output.number(bias.token);
        output.number(bias.bias);
    }
    output.numbers(options.banned);
    output.numbers(options.allowed);
    output.numbers(options.order);
    output.number(static_cast<uint32_t>(options.dry_breakers.size()));
    for (const std::string& text : options.dry_breakers) output.numbers(std::vector<char>(text.begin(), text.end()));
}

void put_tail(Output& output, const SavedTail& tail) {
    output.numbers(tail.tokens);
    output.number(tail.computed);
    output.number(tail.sampling.temperature);
    output.number(tail.sampling.top_k);
    output.number(tail.sampling.top_p);
    output.number(tail.sampling.min_p);
    output.number(tail.sampling.seed);
    output.number(tail.next.value_or(-1));
    output.number(tail.composition);
    if (tail.blend) {
        output.number(tail.blend->share);
        output.number(static_cast<uint32_t>(tail.blend->begun ? 1 : 0));
        output.number(tail.blend->chosen_tokens);
        output.number(static_cast<uint32_t>(tail.blend->is_shared ? 1 : 0));
    }
    if (has_further(tail.sampling)) put_further(output, tail.sampling);
}

template <typename... Parts>
Error bad(const std::string& path, const Parts&... parts) {
    return fail(NL_ERROR_BAD_FILE, path, ": ", parts...);
}

bool tokens_fit(std::span<const int32_t> tokens, int32_t vocab_size) {
    return std::ranges::all_of(tokens, [=](int32_t token) { return token >= 0 && token < vocab_size; });
}

Result<std::shared_ptr<const ChunkIdentity>> get_identity(Input& input, const ChunkStore::Identities& earlier,
                                                          const std::shared_ptr<Tenant>& tenant, int32_t vocab_size,
                                                          ChunkStore& store, const std::string& path) {
    const auto is_tenants = input.number<uint32_t>();
    const auto places = input.numbers<uint32_t>();
    const auto tokens = input.numbers<int32_t>();
    if (!input.ok() || tokens.empty() || !tokens_fit(tokens, vocab_size))
        return bad(path, "chunk ", earlier.size(), " has tokens that are missing or not of this model");
    if (is_tenants > (tenant ? 1 : 0)) return bad(path, "chunk ", earlier.size(), " is of a tenant that is not named");
    ChunkStore::Identities before;
    before.reserve(places.size());
    for (const uint32_t place : places) {
        if (place >= earlier.size()) return bad(path, "chunk ", earlier.size(), " comes after chunk ", place);
        if (earlier[place]->tenant && is_tenants == 0)
            return bad(path, "chunk ", earlier.size(), " is of no tenant, and comes after chunk ", place, " of one");
        before.push_back(earlier[place]);
    }
    return store.intern(tokens, std::move(before), is_tenants == 1 ? tenant : nullptr);
}

// Chunks stand one after the other; all but the last are used whole, or a conversation could not have grown so.
Result<SavedChunk> get_chunk(Input& input, const ChunkStore::Identities& identities, int64_t base,
                             const std::string& path) {
    const auto place = input.number<uint32_t>();
    SavedChunk chunk;
    chunk.level = input.number<int32_t>();
    chunk.length = input.number<int32_t>();
    if (!input.ok() || place >= identities.size()) return bad(path, "a chunk is not among its identities");
    chunk.identity = identities[place];
    const auto size = static_cast<int64_t>(chunk.identity->tokens.size());
    if (chunk.level < 0 || chunk.level > 2 || chunk.length < 1 || chunk.length > size ||
        base + chunk.length > INT32_MAX)
        return bad(path, "a chunk of ", size, " tokens has level ", chunk.level, " and length ", chunk.length);
    chunk.base = static_cast<int32_t>(base);
    const auto exact = input.number<uint32_t>();
    chunk.recomputed = input.numbers<int32_t>();
    chunk.exact = exact == 1;
    const std::span<const int32_t> units = chunk.recomputed;
    const bool ascend = std::ranges::adjacent_find(units, std::greater_equal()) == units.end();
    const int32_t num_units = units_for(chunk.length);
    if (!input.ok() || exact > 1 || !ascend || (!units.empty() && (units.front() < 0 || units.back() >= num_units)))
        return bad(path, "a chunk of ", size, " tokens has tokens recomputed that it does not have");
    return chunk;
}

// Whether all options are within the bounds of NL_OPTIONS_SAMPLING; NaN is not.
bool plausible(const SamplingOptions& s) {
    const auto within = [](auto value, auto least, auto most) { return value >= least && value <= most; };
    const bool filters = within(s.temperature, 0.0F, 3e38F) && s.top_k >= 0 && s.top_p > 0 && s.top_p <= 1 &&
                         within(s.min_p, 0.0F, 1.0F) && s.typical_p > 0 && s.typical_p <= 1 && s.xtc_threshold > 0 &&
                         s.xtc_threshold <= 1 && within(s.xtc_probability, 0.0F, 1.0F) &&
                         within(s.mirostat_tau, 0.0F, 1e3F) && within(s.mirostat_eta, 0.0F, 1.0F);
    const bool penalties = within(s.repetition_penalty, 1e-3F, 1e3F) && within(s.frequency_penalty, -100.0F, 100.0F) &&
                           within(s.presence_penalty, -100.0F, 100.0F) && s.penalty_window >= 1 &&
                           within(s.dry_multiplier, 0.0F, 1e6F) && within(s.dry_base, 1.0F, 100.0F) &&
                           s.dry_allowed_length >= 1 && s.dry_window >= 1;
    const auto known = [](Filter filter) { return static_cast<size_t>(filter) < kNumFilters; };
    std::vector<Filter> order = s.order;
    std::ranges::sort(order);
    const auto fits = [](const auto& list) { return list.size() <= kMostListed; };
    const bool lists =
        fits(s.biases) && fits(s.banned) && fits(s.allowed) && fits(s.dry_breakers) &&
        std::ranges::all_of(s.dry_breakers, [](const std::string& text) { return text.size() <= kMostBreakerBytes; });
    return filters && penalties && lists && std::ranges::all_of(order, known) &&
           std::ranges::adjacent_find(order) == order.end() &&
           std::ranges::all_of(s.biases, [&](const LogitBias& b) { return within(b.bias, -1e6F, 1e6F); });
}

void get_further(Input& input, SamplingOptions& options) {
    for_further_numbers(options,
                        [&](auto& member) { member = input.number<std::remove_reference_t<decltype(member)>>(); });
    const auto num_biases = input.number<uint32_t>();
    for (uint32_t i = 0; i < num_biases && input.ok(); ++i) {
        const auto token = input.number<int32_t>();
        options.biases.push_back({token, input.number<float>()});
    }
    options.banned = input.numbers<int32_t>();
    options.allowed = input.numbers<int32_t>();
    options.order = input.numbers<Filter>();
    const auto num_breakers = input.number<uint32_t>();
    for (uint32_t i = 0; i < num_breakers && input.ok(); ++i) {
        const auto text = input.numbers<char>();
        options.dry_breakers.emplace_back(text.begin(), text.end());
    }
}

// The part of a description that only conversations composed as NL_COMPOSE_BLENDED have.
Result<SavedBlend> get_blend(Input& input, const std::string& path) {
    SavedBlend blend;
    blend.share = input.number<double>();
    const auto begun = input.number<uint32_t>();
    blend.chosen_tokens = input.number<int64_t>();
    const auto shared = input.number<uint32_t>();
    if (!input.ok() || !(blend.share >= 0 && blend.share <= 1) || begun > 1 || blend.chosen_tokens < 0 ||
        blend.chosen_tokens > INT32_MAX || shared > 1)
        return bad(path, "its blend contradicts itself");
    blend.begun = begun == 1;
    blend.is_shared = shared == 1;
    return blend;
}

Result<SavedTail> get_tail(Input& input, int32_t vocab_size, const std::string& path) {
    SavedTail tail;
    tail.tokens = input.numbers<int32_t>();
    tail.computed = input.number<int32_t>();
    tail.sampling.temperature = input.number<float>();
    tail.sampling.top_k = input.number<int32_t>();
    tail.sampling.top_p = input.number<float>();
    tail.sampling.min_p = input.number<float>();
    tail.sampling.seed = input.number<uint64_t>();
    const auto next = input.number<int32_t>();
    tail.composition = input.number<int32_t>();
    if (tail.composition == NL_COMPOSE_BLENDED) {
        NL_ASSIGN(tail.blend, get_blend(input, path));
    }
    if (input.ok() && !input.at_end()) get_further(input, tail.sampling);
    std::vector<int32_t> named = tail.sampling.banned;
    named.insert(named.end(), tail.sampling.allowed.begin(), tail.sampling.allowed.end());
    for (const LogitBias& bias : tail.sampling.biases) named.push_back(bias.token);
    if (!input.ok() || !plausible(tail.sampling) || !tokens_fit(named, vocab_size) ||
        !tokens_fit(tail.tokens, vocab_size) || tail.computed < 0 ||
        tail.computed > static_cast<int64_t>(tail.tokens.size()) || next < -1 || next >= vocab_size ||
        tail.composition < NL_COMPOSE_EXACT || tail.composition > NL_COMPOSE_BLENDED)
        return bad(path, "its conversation contradicts itself");
    if (next >= 0) tail.next = next;
    return tail;
}

}  // namespace

std::vector<int32_t> pages_of_units(std::span<const int32_t> units, int32_t page_size) {
    std::vector<int32_t> pages;
    for (const int32_t unit : units) {
        const int32_t page = unit / (page_size / kBlendUnit);
        if (pages.empty() || pages.back() != page) pages.push_back(page);
    }
    return pages;
}

int64_t pages_of(const Saved& saved, int32_t page_size) {
    int64_t pages = 0;
    for (const SavedChunk& chunk : saved.chunks)
        pages += pages_for(static_cast<int64_t>(chunk.identity->tokens.size()), page_size) +
                 std::ssize(pages_of_units(chunk.recomputed, page_size));
    if (saved.tail) pages += pages_for(int64_t{saved.tail->computed}, page_size);
    return pages;
}

Result<std::vector<std::byte>> encode_description(const Saved& saved) {
    IdentityTable table;
    for (const SavedChunk& chunk : saved.chunks) table.add(*chunk.identity);
    Output output;
    output.bytes(salt_of(saved.tenant.get()));
    output.number(static_cast<uint32_t>(table.list().size()));
    for (const ChunkIdentity* identity : table.list()) {
        output.number(static_cast<uint32_t>(identity->tenant ? 1 : 0));
        output.number(static_cast<uint32_t>(identity->before.size()));
        for (const auto& before : identity->before) output.number(table.place(*before));
        output.numbers(identity->tokens);
        if (output.size() > kMostDescription)
            return fail(NL_ERROR_UNSUPPORTED, "the chunks come after so many others that their tokens take over ",
                        kMostDescription, " bytes");
    }
    output.number(static_cast<uint32_t>(saved.chunks.size()));
    for (const SavedChunk& chunk : saved.chunks) {
        output.number(table.place(*chunk.identity));
        output.number(chunk.level);
        output.number(chunk.length);
        output.number(static_cast<uint32_t>(chunk.exact ? 1 : 0));
        output.numbers(chunk.recomputed);
    }
    output.number(static_cast<uint32_t>(saved.tail ? 1 : 0));
    if (saved.tail) put_tail(output, *saved.tail);
    return output.take();
}

std::vector<std::byte> encode_header(const Header& header) {
    Output output;
    output.bytes(std::as_bytes(std::span(kMagic)));
    output.number(kFormatVersion);
    output.number(header.page_size);
    output.number(header.page_bytes);
    output.number(header.num_pages);
    output.number(uint64_t{header.description_bytes});
    output.number(header.description_checksum);
    for (const Digest* digest :
         {&header.mark.weights, &header.mark.tokenizer, &header.mark.numbers, &header.chunk_digest})
        output.bytes(*digest);
    std::vector<std::byte> bytes = output.take();
    bytes.resize(kHeaderBytes - sizeof(uint64_t));
    const uint64_t sum = checksum(bytes);
    const auto last = std::as_bytes(std::span(&sum, 1));
    bytes.insert(bytes.end(), last.begin(), last.end());
    return bytes;
}

Result<Header> decode_header(std::span<const std::byte> bytes, size_t file_bytes, const std::string& path) {
    if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
        return bad(path, "it holds no chunks of this library");
    Input input(bytes.first(kHeaderBytes));
    char magic[sizeof(kMagic)];
    input.copy(std::as_writable_bytes(std::span(magic)));
    const auto version = input.number<uint32_t>();
    if (version != kFormatVersion)
        return fail(NL_ERROR_UNSUPPORTED, path, ": it is of format ", version, ": expected ", kFormatVersion);
    uint64_t sum = 0;
    std::memcpy(&sum, bytes.data() + kHeaderBytes - sizeof(sum), sizeof(sum));
    if (sum != checksum(bytes.first(kHeaderBytes - sizeof(sum)))) return bad(path, "its header is damaged");
    Header header;
    header.page_size = input.number<int32_t>();
    header.page_bytes = input.number<int64_t>();
    header.num_pages = input.number<int64_t>();
    header.description_bytes = input.number<uint64_t>();
    header.description_checksum = input.number<uint64_t>();
    for (Digest* digest : {&header.mark.weights, &header.mark.tokenizer, &header.mark.numbers, &header.chunk_digest})
        input.copy(*digest);
    if (!check_page_size(header.page_size).ok() || header.page_bytes < 1 || header.num_pages < 0 ||
        header.num_pages > kMostPages || header.page_bytes > (int64_t{1} << 62) / kMostPages / 2 ||
        header.description_bytes > kMostDescription)
        return bad(path, "its header contradicts itself");
    if (file_bytes != header.file_bytes())
        return bad(path, "it has ", file_bytes, " bytes: expected ", header.file_bytes(),
                   file_bytes < header.file_bytes() ? ": its end is missing" : "");
    return header;
}

Result<Saved> decode_description(std::span<const std::byte> bytes, const Header& header, int32_t vocab_size,
                                 ChunkStore& store, const std::string& path) {
    if (checksum(bytes) != header.description_checksum) return bad(path, "the description of its chunks is damaged");
    Input input(bytes);
    Saved saved;
    Digest salt{};
    input.copy(salt);
    if (salt != Digest{}) saved.tenant = store.tenant(salt);
    ChunkStore::Identities identities;
    for (auto left = input.number<uint32_t>(); left > 0; --left) {
        NL_ASSIGN(auto identity, get_identity(input, identities, saved.tenant, vocab_size, store, path));
        identities.push_back(std::move(identity));
    }
    int64_t base = 0;
    for (auto left = input.number<uint32_t>(); left > 0; --left) {
        NL_ASSIGN(SavedChunk chunk, get_chunk(input, identities, base, path));
        base += chunk.length;
        saved.chunks.push_back(std::move(chunk));
    }
    const auto has_tail = input.number<uint32_t>();
    if (has_tail == 1) {
        NL_ASSIGN(saved.tail, get_tail(input, vocab_size, path));
    }
    const bool blends = saved.tail && saved.tail->blend;
    const auto is_blended = [](const SavedChunk& chunk) { return chunk.exact || !chunk.recomputed.empty(); };
    if (!blends && std::ranges::any_of(saved.chunks, is_blended))
        return bad(path, "it has recomputed tokens, and is not composed as NL_COMPOSE_BLENDED");
    const auto is_cut = [](const SavedChunk& chunk) {
        return chunk.length != static_cast<int64_t>(chunk.identity->tokens.size());
    };
    if (blends && saved.tail->blend->is_shared && std::ranges::any_of(saved.chunks, is_cut))
        return bad(path, "it shares a blend of chunks that it uses in part");
    const bool alone = saved.chunks.size() == 1 && saved.chunks[0].identity->tenant == saved.tenant &&
                       saved.chunks[0].length == static_cast<int64_t>(saved.chunks[0].identity->tokens.size());
    if (!input.at_end() || has_tail > 1 || (has_tail == 0 && !alone) ||
        pages_of(saved, header.page_size) != header.num_pages)
        return bad(path, "the description of its chunks contradicts itself");
    return saved;
}

Result<void> check_mark(const Header& header, const EngineMark& mark, int32_t page_size, int64_t page_bytes,
                        const std::string& path) {
    if (header.page_size != page_size)
        return bad(path, "its pages have ", header.page_size, " tokens: expected ", page_size, " (page_size)");
    if (header.page_bytes != page_bytes)
        return bad(path, "its pages have ", header.page_bytes, " bytes: expected ", page_bytes,
                   " (another model, or another kv_dtype)");
    if (header.mark.weights != mark.weights) return bad(path, "it was made with other weights");
    if (header.mark.tokenizer != mark.tokenizer) return bad(path, "it was made with another tokenizer");
    if (header.mark.numbers != mark.numbers)
        return bad(path, "it was made with other numbers of the model (dtype, kv_dtype, RoPE, config.json)");
    return {};
}

}  // namespace nanolith
