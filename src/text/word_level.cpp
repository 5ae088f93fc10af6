#include "text/word_level.h"

#include "files/json_fields.h"
#include "text/component.h"
#include "text/token_list.h"

namespace nanolith {

class WordLevel::Encoder final : public TokenModel::Encoder {
  public:
    explicit Encoder(const WordLevel& model) : model_(&model) {}

    [[nodiscard]] Result<void> encode(std::string_view word, std::vector<int32_t>& tokens) override {
        const int32_t known = model_->vocabulary_.find(word);
        if (known < 0 && model_->unk_ < 0) return unknown_word(word);
        make_room(tokens, 1);
        tokens.push_back(known >= 0 ? known : model_->unk_);
        return {};
    }

  private:
    const WordLevel* model_;
};

Result<std::unique_ptr<const WordLevel>> WordLevel::read(const Json& json, const std::string& where) {
    const JsonFields fields(json, where, "model.");
    std::unique_ptr<WordLevel> made(new WordLevel);
    NL_ASSIGN(const std::string unk, read_string(fields, "unk_token"));
    const Json* const vocab = fields.find("vocab");
    if (vocab == nullptr) return fields.wrong("vocab", "an object");
    NL_ASSIGN(made->vocabulary_, Vocabulary::read(*vocab, where));
    made->unk_ = made->vocabulary_.find(unk);
    return std::unique_ptr<const WordLevel>(std::move(made));
}

std::unique_ptr<TokenModel::Encoder> WordLevel::make_encoder(size_t /*text_bytes*/) const {
    return std::make_unique<Encoder>(*this);
}

}  // namespace nanolith
