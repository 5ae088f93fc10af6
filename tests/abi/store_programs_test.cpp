// Random programs upon the store (store_programs.h), with disks that work and disks that don't.
#include "abi/store_programs.h"

#include "support/failing_files.h"

namespace nanolith::test {
namespace {

using store_programs::Counts;
using store_programs::Settings;

TEST(StorePrograms, DrawTheTokensOfAnEngineThatComputesEverything) {
    Counts counts;
    store_programs::run_programs({}, store_programs::num_programs(60), counts);
    EXPECT_GT(counts.tokens, 10 * counts.programs);
    if (counts.programs < 60) return;  // too few for each thing to happen
    EXPECT_GT(counts.evictions, 0);
    EXPECT_GT(counts.from_files, 0);
    EXPECT_GT(counts.from_host, 0);
    EXPECT_GT(counts.loaded, 0);
}

TEST(StorePrograms, FilesThatFailCostNoToken) {
    namespace files = failing_files;
    Settings settings;
    settings.files_fail = true;
    settings.begin_failing = [](uint32_t seed, const std::string& folder) {
        constexpr files::Disk kDisks[] = {files::Disk::works, files::Disk::fails, files::Disk::fails, files::Disk::full,
                                          files::Disk::read_only};
        files::folder = folder;
        files::draws = seed;
        files::one_in = 4 + seed % 60;
        files::disk = kDisks[seed / 64 % 5];
    };
    settings.end_failing = [] { files::disk = files::Disk::works; };
    settings.not_removed = [] { return files::kept.load(); };
    Counts counts;
    store_programs::run_programs(settings, store_programs::num_programs(60), counts);
    std::printf("%d calls upon files failed\n", int(files::failures));
    EXPECT_GT(files::failures, counts.programs);
    EXPECT_GT(counts.tokens, 10 * counts.programs);
    if (counts.programs < 60) return;
    EXPECT_GT(counts.from_files, 0);
    EXPECT_GT(counts.loaded, 0);
}

}  // namespace
}  // namespace nanolith::test
