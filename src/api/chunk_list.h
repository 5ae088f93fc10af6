// An array of chunk handles as an argument: checked, and held while the call lasts.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "api/guard.h"
#include "api/handles.h"

namespace nanolith::api {

class ChunkList {
  public:
    static Result<ChunkList> of(const nl_engine& user, const nl_chunk* const* handles, size_t count, const char* name,
                                const char* count_name) {
        NL_ASSIGN(const auto span, check_array(handles, count, name, count_name));
        const std::shared_ptr<Engine>& engine = user.engine;
        ChunkList list(engine);
        for (size_t i = 0; i < span.size(); ++i) {
            const auto index = static_cast<int64_t>(i);
            if (span[i] == nullptr)
                return fail(NL_ERROR_INVALID_ARGUMENT, name, "[", i, "] is NULL: expected a chunk")
                    .with(NL_DETAIL_INDEX, index);
            if (span[i]->engine != engine)
                return fail(NL_ERROR_INVALID_ARGUMENT, name, "[", i,
                            "] is of another engine: expected chunks of this one")
                    .with(NL_DETAIL_INDEX, index);
            if (!Engine::may_use(user.tenant, *span[i]->chunk))
                return fail(NL_ERROR_INVALID_ARGUMENT, name, "[", i,
                            "] is of another tenant: expected chunks of the same salt or of none")
                    .with(NL_DETAIL_INDEX, index);
            list.chunks_.push_back(engine->retain(span[i]->chunk));
        }
        return list;
    }
    ChunkList(ChunkList&& other) = default;
    ChunkList& operator=(ChunkList&&) = delete;
    ~ChunkList() {
        for (auto& chunk : chunks_) engine_->release(std::move(chunk));
    }

    [[nodiscard]] std::span<const std::shared_ptr<Chunk>> chunks() const { return chunks_; }

  private:
    explicit ChunkList(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

    std::shared_ptr<Engine> engine_;
    std::vector<std::shared_ptr<Chunk>> chunks_;
};

}  // namespace nanolith::api
