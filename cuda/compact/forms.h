// The forms of compact weights that product kernels are compiled for: those of GGUF files, of quantised checkpoints and
// of quantised_form().
#pragma once

#include "compact/layout.h"
#include "compact/scales.cuh"

namespace nanolith::cuda {

template <typename... Forms>
struct FormList;

template <>
struct FormList<> {
    template <typename Use, typename Otherwise>
    static auto with(const CompactLayout&, const Use&, const Otherwise& otherwise) {
        return otherwise();
    }
};

template <typename Form, typename... Others>
struct FormList<Form, Others...> {
    // use(the traits of the layout), or otherwise() where it is not in the list.
    template <typename Use, typename Otherwise>
    static auto with(const CompactLayout& layout, const Use& use, const Otherwise& otherwise) {
        const bool matches = layout.codes == Form::kCodes && layout.scales == Form::kScales &&
                             layout.mins == Form::kMins &&
                             (layout.scales == ScaleKind::none || layout.group == Form::kGroup);
        return matches ? use(Form()) : FormList<Others...>::with(layout, use, otherwise);
    }
};

using CompactForms = FormList<CompactTraits<CodeKind::bits4, ScaleKind::half, 32, false>,  // Q4_0
                              CompactTraits<CodeKind::bits4, ScaleKind::half, 32, true>,   // Q4_1
                              CompactTraits<CodeKind::bits4, ScaleKind::zeros, 32, true>,  // AWQ, GPTQ with zero points
                              CompactTraits<CodeKind::bits4, ScaleKind::two, 16, false>,   // Q3_K
                              CompactTraits<CodeKind::bits4, ScaleKind::two, 16, true>,    // Q2_K
                              CompactTraits<CodeKind::bits4, ScaleKind::two, 32, true>,    // Q4_K, int4
                              CompactTraits<CodeKind::int8, ScaleKind::half, 32, false>,   // Q8_0, Q5_0, IQ4_NL, int8
                              CompactTraits<CodeKind::int8, ScaleKind::half, 32, true>,    // Q5_1
                              CompactTraits<CodeKind::int8, ScaleKind::zeros, 32, true>,   // GPTQ with zero points
                              CompactTraits<CodeKind::int8, ScaleKind::two, 16, false>,    // Q6_K
                              CompactTraits<CodeKind::int8, ScaleKind::two, 32, false>,    // IQ4_XS
                              CompactTraits<CodeKind::int8, ScaleKind::two, 32, true>,     // Q5_K
                              CompactTraits<CodeKind::e4m3, ScaleKind::half, 32, false>,   // fp8 with scales of blocks
                              CompactTraits<CodeKind::e4m3, ScaleKind::none, 32, false>>;  // fp8

}  // namespace nanolith::cuda
