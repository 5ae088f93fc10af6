// Fuzzes what reads a GGUF file, which is the input: its header, its tokenizer, which encodes a text, its configuration
// and its weights, of which the beginnings and the ends are decoded.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "backend/read_weight.h"
#include "files/gguf.h"
#include "model/model.h"
#include "text/gguf_tokenizer.h"

namespace {

void read(const nanolith::WeightView& weight) {
    if (!weight.present()) return;
    const int64_t size = weight.rows * weight.cols;
    std::vector<float> values(std::min<int64_t>(size, 4096));
    const auto count = static_cast<int64_t>(values.size());
    for (const int64_t first : {int64_t{0}, size - count}) nanolith::read_weight(weight, first, count, values.data());
}

// The file's bytes in memory, under a path.
struct MemoryFile {
    int descriptor;
    std::string path;

    MemoryFile(const uint8_t* data, size_t size) : descriptor(::memfd_create("model.gguf", MFD_CLOEXEC)) {
        if (descriptor < 0 || ::write(descriptor, data, size) != static_cast<ssize_t>(size)) abort();
        path = "/proc/self/fd/" + std::to_string(descriptor);
    }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() { ::close(descriptor); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const auto header = nanolith::GgufHeader::parse(bytes, "model.gguf");
    if (!header.ok()) return 0;
    const auto tokenizer = nanolith::make_gguf_tokenizer(*header);
    if (tokenizer.ok()) {
        const auto tokens = (*tokenizer)->encode("Some text: 12 <s> \xC3\xA9\n", NL_ENCODE_ADD_SPECIAL);
        if (tokens.ok() && !(*tokenizer)->decode(*tokens).ok()) abort();
    }
    const MemoryFile file(data, size);
    for (const auto place : {nanolith::WeightPlace::mapped, nanolith::WeightPlace::copied}) {
        const auto model = nanolith::load_model(file.path, 0, place);
        if (!model.ok()) continue;
        const nanolith::ModelWeights& weights = (*model)->weights;
        for (const auto* weight : {&weights.embedding, &weights.final_norm, &weights.head}) read(*weight);
        for (const nanolith::LayerWeights& layer : weights.layers) {
            for (const auto* weight :
                 {&layer.attention_norm, &layer.q_proj, &layer.k_proj, &layer.v_proj, &layer.o_proj, &layer.mlp_norm,
                  &layer.gate_proj, &layer.up_proj, &layer.down_proj, &layer.q_bias, &layer.q_norm, &layer.router})
                read(*weight);
            for (const nanolith::ExpertWeights& expert : layer.experts) read(expert.down_proj);
        }
    }
    return 0;
}
