// What the library tells about itself is what its header says.
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "abi/abi_fixtures.h"
#include "abi/header_text.h"

namespace nanolith::test {
namespace {

using Json = nlohmann::json;
using Describe = nl_status (*)(int32_t, char*, size_t, size_t*);

Json described(Describe describe, int32_t kind) {
    size_t length = 0;
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0", describe(kind, nullptr, 0, &length));
    std::string text(length, '\0');
    EXPECT_EQ(describe(kind, text.data(), text.size(), &length), NL_OK) << nl_last_error();
    return Json::parse(text);
}

TEST(Describe, EveryOptionOfTheHeader) {
    const std::map<std::string, std::string> types = {{"NL_TAKES_INT", "int"},
                                                      {"NL_TAKES_BOOL", "int"},
                                                      {"NL_TAKES_CHOICE", "int"},
                                                      {"NL_TAKES_FLOAT", "float"},
                                                      {"NL_TAKES_TEXT", "text"},
                                                      {"NL_TAKES_INT_LIST", "int list"},
                                                      {"NL_TAKES_TEXT_LIST", "text list"}};
    auto expected = header_constants("NL_OPTION_");
    ASSERT_EQ(expected.size(), 66U);
    for (const int32_t kind : {NL_OPTIONS_ENGINE, NL_OPTIONS_CACHE, NL_OPTIONS_SAMPLING, NL_OPTIONS_GENERATION}) {
        const Json list = described(nl_option_describe, kind);
        ASSERT_TRUE(list.is_array());
        int64_t last = 0;
        for (const Json& option : list) {
            const auto name = option.at("name").get<std::string>();
            SCOPED_TRACE(name);
            ASSERT_TRUE(expected.contains(name));
            const auto key = option.at("key").get<int64_t>();
            EXPECT_EQ(key, expected[name].value);
            EXPECT_EQ(option.at("type"), types.at(expected[name].mark));
            EXPECT_GT(key, last);
            // Engine 1.., cache 100.., sampling 200.., generation 300..
            EXPECT_EQ(key / 100, kind - 1);
            last = key;
            EXPECT_TRUE(option.at("doc").get<std::string>().ends_with('.'));
            EXPECT_EQ(option.size(), 7U);
            expected.erase(name);
        }
    }
    EXPECT_TRUE(expected.empty()) << expected.begin()->first;
}

TEST(Describe, OptionsWithTheirBounds) {
    for (const int32_t kind : {NL_OPTIONS_ENGINE, NL_OPTIONS_CACHE, NL_OPTIONS_SAMPLING, NL_OPTIONS_GENERATION}) {
        for (const Json& option : described(nl_option_describe, kind)) {
            SCOPED_TRACE(option.dump());
            const auto key = option.at("key").get<int32_t>();
            const auto type = option.at("type").get<std::string>();
            if (type == "float") {
                double least = 0;
                double most = 0;
                double standard = 0;
                NL_CHECK(nl_option_bounds_float(key, &least, &most, &standard));
                EXPECT_EQ(option.at("least").get<double>(), least);
                EXPECT_EQ(option.at("most").get<double>(), most);
                EXPECT_EQ(option.at("default").get<double>(), standard);
            } else if (type == "int" || type == "int list") {
                int64_t least = 0;
                int64_t most = 0;
                int64_t standard = 0;
                NL_CHECK(nl_option_bounds_int(key, &least, &most, &standard));
                EXPECT_EQ(option.at("least").get<int64_t>(), least);
                EXPECT_EQ(option.at("most").get<int64_t>(), most);
                if (type == "int") {
                    EXPECT_EQ(option.at("default").get<int64_t>(), standard);
                }
            }
            if (type.ends_with(" list")) {
                EXPECT_EQ(option.at("default"), Json::array());
            }
        }
    }
}

// The header promises it, and bindings whose zero values stand for defaults need it.
TEST(Describe, ZeroIsADefaultOrOutOfBounds) {
    for (const auto& [name, constant] : header_constants("NL_OPTION_")) {
        SCOPED_TRACE(name);
        const auto key = static_cast<int32_t>(constant.value);
        if (constant.mark == "NL_TAKES_INT" || constant.mark == "NL_TAKES_CHOICE") {
            int64_t least = 0;
            int64_t most = 0;
            int64_t standard = 0;
            NL_CHECK(nl_option_bounds_int(key, &least, &most, &standard));
            EXPECT_TRUE(standard == 0 || least > 0 || most < 0);
        } else if (constant.mark == "NL_TAKES_BOOL") {
            int64_t least = 7;
            int64_t most = 7;
            int64_t standard = 7;
            NL_CHECK(nl_option_bounds_int(key, &least, &most, &standard));
            EXPECT_EQ(least, 0);
            EXPECT_EQ(most, 1);
        } else if (constant.mark == "NL_TAKES_FLOAT") {
            double least = 0;
            double most = 0;
            double standard = 0;
            NL_CHECK(nl_option_bounds_float(key, &least, &most, &standard));
            EXPECT_TRUE(standard == 0 || least > 0 || most < 0);
        }
    }
}

TEST(Describe, EveryFactOfTheHeader) {
    const std::map<int32_t, std::string> prefixes = {{NL_FACTS_ENGINE, "NL_ENGINE_"},
                                                     {NL_FACTS_TOKENIZER, "NL_TOKENIZER_"},
                                                     {NL_FACTS_CHUNK, "NL_CHUNK_"},
                                                     {NL_FACTS_CACHE, "NL_CACHE_"},
                                                     {NL_FACTS_GENERATION, "NL_GENERATION_"}};
    for (const auto& [kind, prefix] : prefixes) {
        auto expected = header_constants(prefix);
        ASSERT_FALSE(expected.empty());
        int64_t last = 0;
        for (const Json& fact : described(nl_fact_describe, kind)) {
            const auto name = fact.at("name").get<std::string>();
            ASSERT_TRUE(expected.contains(name)) << prefix << name;
            EXPECT_EQ(fact.at("key").get<int64_t>(), expected[name].value) << name;
            EXPECT_GT(fact.at("key").get<int64_t>(), last) << name;
            last = fact.at("key").get<int64_t>();
            EXPECT_FALSE(fact.at("unit").get<std::string>().empty());
            EXPECT_TRUE(fact.at("doc").get<std::string>().ends_with('.'));
            expected.erase(name);
        }
        EXPECT_TRUE(expected.empty()) << prefix << expected.begin()->first;
    }
    size_t length = 0;
    for (const int32_t kind : {-1, 0, 6})
        EXPECT_INVALID("kind is " + std::to_string(kind), nl_fact_describe(kind, nullptr, 0, &length));
    EXPECT_INVALID("length", nl_fact_describe(NL_FACTS_ENGINE, nullptr, 0, nullptr));
}

// Each fact that is described can be asked for, and the next one can't.
TEST(Describe, FactsCanBeAskedFor) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle chunk = make_chunk(engine.get(), some_tokens(20));
    const CacheHandle cache = make_cache(engine.get(), {chunk.get()});
    nl_tokenizer* made = nullptr;
    NL_CHECK(nl_engine_tokenizer(engine.get(), &made));
    const TokenizerHandle tokenizer(made);
    const auto ask = [&](int32_t kind, int32_t fact) {
        int64_t value = 0;
        switch (kind) {
            case NL_FACTS_ENGINE:
                return nl_engine_query(engine.get(), fact, &value);
            case NL_FACTS_TOKENIZER:
                return nl_tokenizer_query(tokenizer.get(), fact, &value);
            case NL_FACTS_CHUNK:
                return nl_chunk_query(chunk.get(), fact, &value);
            default:
                return nl_cache_query(cache.get(), fact, &value);
        }
    };
    for (const int32_t kind : {NL_FACTS_ENGINE, NL_FACTS_TOKENIZER, NL_FACTS_CHUNK, NL_FACTS_CACHE}) {
        int32_t last = 0;
        for (const Json& fact : described(nl_fact_describe, kind)) {
            last = fact.at("key").get<int32_t>();
            NL_CHECK(ask(kind, last)) << fact.dump();
        }
        EXPECT_INVALID("fact is " + std::to_string(last + 1), ask(kind, last + 1));
        EXPECT_INVALID("1 to " + std::to_string(last), ask(kind, 0));
    }
}

// The object has every fact that is described, under its name in lower case and with the value that a query gives, and
// the members of `more`.
template <typename Handle, typename Tell, typename Query>
Json told(const Handle* handle, int32_t kind, Tell tell, Query query, const std::vector<std::string>& more) {
    size_t length = 0;
    EXPECT_FAILS(NL_ERROR_BUFFER_TOO_SMALL, "capacity is 0", tell(handle, nullptr, 0, &length));
    std::string text(length, '\0');
    EXPECT_EQ(tell(handle, text.data(), text.size(), &length), NL_OK) << nl_last_error();
    Json object = Json::parse(text);
    Json facts = object;
    for (const std::string& name : more) EXPECT_EQ(facts.erase(name), 1U) << name;
    for (const Json& fact : described(nl_fact_describe, kind)) {
        auto name = fact.at("name").get<std::string>();
        for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
        SCOPED_TRACE(name);
        int64_t value = 0;
        EXPECT_EQ(query(handle, fact.at("key").get<int32_t>(), &value), NL_OK) << nl_last_error();
        EXPECT_TRUE(facts.at(name).is_number_integer());
        EXPECT_EQ(facts.at(name).get<int64_t>(), value);
        facts.erase(name);
    }
    EXPECT_TRUE(facts.empty()) << facts.dump();
    return object;
}

TEST(Describe, FactsOfEnginesAndCachesAsJson) {
    const TinyModel model;
    const EngineHandle engine = make_engine(model);
    const ChunkHandle first = make_chunk(engine.get(), some_tokens(20), NL_LEVEL_SYSTEM);
    const ChunkHandle second = make_chunk(engine.get(), some_tokens(40, 2), NL_LEVEL_QUERY);
    const CacheHandle cache = make_cache(engine.get(), {first.get(), second.get()});
    const Json told_of_engine = told(engine.get(), NL_FACTS_ENGINE, nl_engine_describe, nl_engine_query, {"tiers"});
    told(cache.get(), NL_FACTS_CACHE, nl_cache_describe, nl_cache_query, {});
    // Without options that add tiers there are the device's pages alone.
    const int64_t page_bytes = fact(engine.get(), NL_ENGINE_PAGE_BYTES);
    const int64_t pages[2] = {fact(first.get(), NL_CHUNK_PAGES), fact(second.get(), NL_CHUNK_PAGES)};
    const auto level = [&](int64_t number, int64_t chunks, int64_t with_pages) {
        return Json{{"level", number}, {"chunks", chunks}, {"bytes", with_pages * page_bytes}};
    };
    const Json device = {{"tier", "device"},
                         {"chunks", 2},
                         {"bytes", (pages[0] + pages[1]) * page_bytes},
                         {"hits", 0},
                         {"moves", 0},
                         {"levels", Json::array({level(0, 1, pages[0]), level(1, 0, 0), level(2, 1, pages[1])})}};
    EXPECT_EQ(told_of_engine.at("tiers"), Json::array({device}));
}

}  // namespace
}  // namespace nanolith::test
