// The mark of an engine (EngineMark): what its chunks' names begin with. The digest of the weights is computed when it
// is first needed, not while an engine loads, and kept for the next engine in a file of the store's folder.
#pragma once

#include <string>

#include "backend/executor.h"
#include "base/result.h"
#include "model/model.h"
#include "store/identity.h"

namespace nanolith {

// SHA-256 of the model's numbers, of the formats and the page size, and of what else decides bits: with
// `batch_invariant` the device and the library's version.
Digest digest_of_numbers(const ModelSpec& spec, const ExecutorOptions& options, const std::string& device);

// SHA-256 of the bytes of a model folder's tokenizer files, those that it has.
Result<Digest> digest_of_tokenizer(const std::string& folder);

// SHA-256 of the weight files: of the digest of each, in the order of their names, which is that of the digests of its
// blocks of 64 MiB, computed by several threads. `kept`: a file that remembers digests by the facts of files, or empty.
// What could not be read from it or written to it costs time alone. IO: a file is not as it was when it was loaded.
// UNSUPPORTED: the model was not loaded from files.
Result<Digest> digest_of_weights(const Model& model, const std::string& kept);

}  // namespace nanolith
