#include "backend/cpu/onednn_threads.h"

#include <dlfcn.h>

#include <cstdlib>
#include <new>

namespace nanolith::cpu {
namespace {

// The first setting on a thread takes some hundred bytes. What has just been freed on this thread can be had again.
void make_sure_of_memory() {
    constexpr size_t kBytes = 8192;
    void* const probe = std::malloc(kBytes);
    if (probe == nullptr) throw std::bad_alloc();
    asm volatile("" : : "r"(probe) : "memory");  // or the compiler would leave out both calls
    std::free(probe);
}

}  // namespace

OnednnThreads::OnednnThreads()
    : most_(reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))),
      set_(reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) {
    if (set_ == nullptr) most_ = nullptr;
}

OnednnThreads::One::One(const OnednnThreads& threads) : threads_(threads) {
    if (threads_.most_ == nullptr) return;
    before_ = threads_.most_();
    if (before_ == 1) return;
    make_sure_of_memory();
    threads_.set_(1);
}

OnednnThreads::One::~One() {
    if (before_ != 1) threads_.set_(before_);
}

}  // namespace nanolith::cpu
