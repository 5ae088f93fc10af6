// One token for each of n caches.
#include <algorithm>

#include "engine/busy_guard.h"
#include "engine/engine.h"

namespace nanolith {

Result<void> Engine::decode_step(std::span<Cache* const> caches, std::span<int32_t> tokens) {
    Lock lock(mutex_);
    BusyGuard busy(*this, lock, caches);
    std::vector<Growth> growths;
    std::vector<Job> jobs;
    constexpr auto kNoJob = static_cast<size_t>(-1);
    std::vector<size_t> job_of(caches.size(), kNoJob);  // index into jobs; kNoJob where the token was drawn ahead
    growths.reserve(caches.size());
    jobs.reserve(caches.size());

    for (size_t i = 0; i < caches.size(); ++i) {
        Context& context = *caches[i]->context;
        if (context.num_tokens() == 0)
            return fail(NL_ERROR_INVALID_ARGUMENT, "caches[", i,
                        "] is empty: a token follows a token, extend it first");
        if (context.num_tokens() >= spec().max_context)
            return fail(NL_ERROR_CONTEXT_FULL, "caches[", i, "] holds ", context.num_tokens(),
                        " tokens: the context holds no more");
        const auto rows = context.ahead ? 0 : static_cast<int32_t>(context.pending().size());
        NL_ASSIGN(auto growth, plan_growth(context, rows));
        context.reserve(1, growth.added.size());
        if (!context.ahead) {
            job_of[i] = jobs.size();
            jobs.push_back(make_job(*caches[i], {}, growth));
        }
        growths.push_back(std::move(growth));
    }

    if (!jobs.empty()) NL_TRY(busy.run(jobs));
    for (size_t i = 0; i < caches.size(); ++i) {
        Context& context = *caches[i]->context;
        tokens[i] = context.ahead ? *context.ahead : jobs[job_of[i]].token;
        if (job_of[i] != kNoJob) {
            context.tokens_computed += static_cast<int64_t>(context.pending().size());
            commit_growth(context, std::move(growths[i]));
            context.commit_computed();
        }
        context.ahead.reset();
        context.commit_tokens({&tokens[i], 1});
    }
    return {};
}

}  // namespace nanolith
